"""The proof that a request asks for, made in the enclosed process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from twice.core.closed import assert_never
from twice.core.ports import SILENT, Progress
from twice.core.results.proof import Proof
from twice.core.task import Task
from twice.proof.enclosure.enclosure import Enclosure
from twice.proof.enclosure.session import plain_session
from twice.proof.jobs.job import check_jobs_scenarios, prove_job
from twice.proof.jobs.script import Script, prove_script
from twice.proof.process.request import ProveJob, ProveScript, ProveTask, Request
from twice.proof.tasks.prove import chosen_scenarios, prove_task
from twice.proof.tasks.scratch import ProofSetup


@dataclass(frozen=True)
class Answering:
    """`enclosure` is this process's. `opened` opens the project of a request, or finds it open: the task that is asked
    for, and what its proof needs."""

    enclosure: Enclosure
    opened: Callable[[ProveTask], tuple[ProofSetup, Task]]
    progress: Progress = SILENT

    def answer(self, request: Request) -> Proof:
        match request:
            case ProveTask():
                return self._task(request)
            case ProveJob():
                return self._job(request)
            case ProveScript():
                return self._script(request)
            case _:
                assert_never(request)

    def _task(self, request: ProveTask) -> Proof:
        chosen_scenarios(request.scenarios)  # before a session is started for nothing
        setup, task = self.opened(request)
        return prove_task(setup, task, request.date, request.scenarios)

    def _job(self, request: ProveJob) -> Proof:
        check_jobs_scenarios(request.tables, request.scenarios)
        job = pickle.loads(request.job)
        session = self._session("job")
        return prove_job(session, job, request.tables, request.warehouse, request.scenarios, self.enclosure)

    def _script(self, request: ProveScript) -> Proof:
        script = Script(request.path, request.arguments, request.tables, request.warehouse)
        return prove_script(self._session(script.path.name), script, self.enclosure)

    def _session(self, name: str) -> SparkSession:
        self.progress.begins("starting", "Spark")
        session = plain_session(self.enclosure)
        self.progress.begins("playing the scenarios", name)
        return session
