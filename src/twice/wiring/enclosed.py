"""A project as an enclosed process opens it: its tables are read where they are, all else is in the scratch folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from pyspark.sql import SparkSession

from twice.config import Secret, Settings, load
from twice.core.ports import SILENT, Progress, Target
from twice.core.task import TableName, Task
from twice.proof.enclosure.enclosure import Enclosure
from twice.proof.enclosure.session import project_session
from twice.proof.play import NotApplicable
from twice.proof.process.request import ProveTask
from twice.proof.tasks.scratch import ChildRun, ProofSetup
from twice.wiring.delta import delta_target
from twice.wiring.open_project import OpenProject

CHILD_RUN = "twice.wiring.child_run"
"""Started by its name: importing it here would close a ring, since it opens an enclosed project."""


class EnclosedProject(OpenProject):
    """`copies`: Delta copies of inputs that are no Delta tables, by the name of the table."""

    def __init__(self, settings: Settings, enclosure: Enclosure, progress: Progress = SILENT) -> None:
        super().__init__(settings, progress)
        self.enclosure = enclosure
        self.copies: dict[str, str] = {}

    @classmethod
    def open(
        cls, root: Path, profile: str | None, enclosure: Enclosure, progress: Progress = SILENT
    ) -> EnclosedProject:
        settings = load(root, profile)
        ledger = Secret(f"sqlite:///{enclosure.scratch / 'ledger.db'}", "the proof's own ledger")
        return cls(replace(settings, ledger=ledger), enclosure, progress)

    def _start(self) -> SparkSession:
        return project_session(self.enclosure, self.settings.spark)

    @cached_property
    def proof_setup(self) -> ProofSetup:
        context = replace(self.context, target_of=self._target_of)
        delta = partial(delta_target, internal=self.settings.internal)
        sent = child_command(self.settings, self.copies)
        return ProofSetup(context, delta, self.targets.folder, sent, self.enclosure)

    def _target_of(self, table: TableName, session: SparkSession) -> Target:
        if self.targets.folder(table) is not None:
            return self.targets.of(table, session)
        copy = self.copies.get(str(table))
        if copy is None:
            raise NotApplicable(f"{table} is not a Delta table and no declared input, so a proof has no copy of it")
        return delta_target(session, lambda _: copy)


class EnclosedProjects:
    """Those that proofs have asked for in this process. They stay open: their session is one."""

    def __init__(self, enclosure: Enclosure, progress: Progress) -> None:
        self._enclosure, self._progress = enclosure, progress
        self._projects: dict[tuple[Path, str | None], EnclosedProject] = {}

    def opened(self, request: ProveTask) -> tuple[ProofSetup, Task]:
        key = (request.root, request.profile)
        if key not in self._projects:
            self._projects[key] = EnclosedProject.open(*key, self._enclosure, self._progress)
        project = self._projects[key]
        project.copies.update(request.copies)
        return project.proof_setup, project.project.task(request.task)


def child_command(settings: Settings, copies: Mapping[str, str]) -> Callable[[ChildRun], Sequence[str]]:
    """The command of the process that runs a task in a scratch copy (`child_run.main`)."""

    def command(child: ChildRun) -> Sequence[str]:
        project = (str(settings.root), settings.profile or "", json.dumps(dict(copies)))
        return [sys.executable, "-m", CHILD_RUN, *project, child.to_json()]

    return command
