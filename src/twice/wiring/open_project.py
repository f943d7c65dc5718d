"""An opened project: its settings, tasks, ledger, session, targets and senders, each made when it is first needed.

Nothing heavy is imported before: `status` and `history` never start Spark, and what makes no sense is refused without
the database library. What is done with it is in `twice.project`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twice.config import Settings, load
from twice.core.ledger.code_parts import CodeParts, TaskCode
from twice.core.ports import SILENT, Progress, unfailing
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import Project
from twice.core.task import TableName, Task
from twice.errors import DeclarationError
from twice.runtime.holder import scratch_name, this_process
from twice.wiring.discover import discover
from twice.wiring.record_owner import record_owner_of
from twice.wiring.targets import Targets
from twice.wiring.written_tasks import WrittenTask, written_tasks

if TYPE_CHECKING:
    from twice.core.ledger.outbox import EffectRecord
    from twice.core.ports import Engine, Sender, Target
    from twice.engine.session.spark_conf import SessionSettings
    from twice.ledgers.ledger import Ledger
    from twice.proof.process.prover import Prover
    from twice.runtime.context import RunContext
    from twice.runtime.effects.delivery import Delivery


_Found = TypeVar("_Found")

NEEDS_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"
"""PySpark's name for an error that a running session cures."""

EMBEDDED = "local[*]"
"""The default master: the session then takes the cores this process may use."""

THROWN_AWAY = "CI"
"""A variable that CI services set: their machine is gone before a class-data archive would be used."""

PROOF_SERVER = "twice.wiring.proof_server"
"""Started by its name: importing it here would close a ring, since it opens projects."""


class OpenProject:
    """A project with its ledger and, once it is needed, its Spark session. Close it, or use `open_project`."""

    def __init__(self, settings: Settings, progress: Progress = SILENT) -> None:
        self.settings = settings
        self.progress = unfailing(progress)

    @cached_property
    def project(self) -> Project:
        try:
            return self._discover()
        except DeclarationError as error:
            if NEEDS_SESSION not in str(error.__cause__):
                raise
        self.spark  # noqa: B018 - a pipeline file that declares `@udf("bigint")` has Spark read that type
        return self._discover()

    @cached_property
    def _declared(self) -> Mapping[str, Task | WrittenTask]:
        """Enough of each task to know its records. Read from the text of the pipeline files where that says it: they
        import PySpark, and what asks the ledger alone need not wait for that."""
        if "project" in self.__dict__:
            return self.project.tasks
        settings = self.settings
        return written_tasks(settings.root, settings.pipelines, settings.format) or self.project.tasks

    def task_name(self, given: str) -> str:
        """The name of a declared task. UsageError for another name."""
        return given if given in self._declared else self.project.task(given).name

    @cached_property
    def ledger(self) -> Ledger:
        from twice.ledgers.ledger import Ledger

        self.progress.begins("opening the ledger", self.settings.project)
        tasks = self._declared.values()
        return Ledger.open(self.settings.ledger_url, owner=record_owner_of(self.settings, tasks))

    @cached_property
    def spark(self) -> Any:
        """The session that is running in this process, or one that is started with the project's settings."""
        self.progress.begins("starting", "Spark")
        from twice.engine.session.session import check_tested

        session = self._start()
        if self.settings.internal:
            check_tested(session)
        return session

    def _start(self) -> Any:
        from twice.engine.warm.attach import warm_or_own

        return warm_or_own(session_settings(self.settings), self.progress)

    @cached_property
    def targets(self) -> Targets:
        return Targets(self.settings)

    @cached_property
    def context(self) -> RunContext:
        """What runs need. It starts Spark, and asks the tables which old records are their own."""
        from twice.engine.spark import SparkEngine
        from twice.runtime.table.assign import assign_all

        context = replace(
            self._context(lambda: SparkEngine(self.spark), self.targets.of),
            release_session=self.targets.release,
            senders=self.senders,
            sends=self.settings.effects.send,
        )
        self.progress.begins("reading the ledger", self.settings.project)
        assign_all(context)
        return context

    @contextmanager
    def quickly(self) -> Iterator[RunContext | None]:
        """What the looks of one command need that start no engine; None where Spark runs in this process already:
        then the full way takes no longer."""
        if not spark_is_running():
            self.project  # noqa: B018 - a pipeline file may need a session to be read
        if spark_is_running():
            yield None
            return
        with self.without_engine() as context:
            yield context

    @contextmanager
    def without_engine(self) -> Iterator[RunContext]:
        """For the looks of one command: whatever needs an engine raises NeedsEngine. Tables and code are read once."""
        from twice.runtime.run.quick import NO_ENGINE

        with self.targets.readers() as reader:
            context = self._context(lambda: NO_ENGINE, lambda table, _session: reader(table))
            yield replace(
                context,
                code_hash=_once(context.code_hash),
                code_parts=_once(context.code_parts),
                recipe=_once(context.recipe),
            )

    def _context(self, engine: Callable[[], Engine], target_of: Callable[[TableName, Any], Target]) -> RunContext:
        """It sends nothing. Starting Spark takes seconds: `engine` is asked for once tasks and ledger could be read."""
        from twice.runtime.context import RunContext

        return RunContext(
            project=self.project,
            ledger=self.ledger,
            engine=engine(),
            target_of=target_of,
            code_hash=self.code_hash,
            code_parts=self.code_parts,
            recipe=self.recipe,
            clock=SYSTEM_CLOCK,
            holder=this_process(),
            root=self.settings.root,
            roots=(self.settings.warehouse, *self.settings.roots),
            lease=timedelta(seconds=self.settings.lease_seconds),
            sends=False,
            progress=self.progress,
        )

    def recipe(self, task: Task) -> str | None:
        """The hash of all that a task's function makes its query plan of, beside its inputs, where that is known."""
        from twice.engine.code.recipe import recipe

        return recipe(task)

    def code_hash(self, task: Task) -> str:
        """The hash of a task's code and options as they are now."""
        from twice.engine.code.code_hash import code_hash

        return code_hash(task)

    def code_parts(self, task: Task) -> CodeParts:
        """What its code and options are made of, by the names that people have for them."""
        from twice.engine.code.code_hash import code_parts

        return code_parts(task, self.settings.root)

    def code_of(self, task: Task) -> TaskCode:
        """Both, the parts for whoever asks."""
        return TaskCode(self.code_hash(task), lambda: self.code_parts(task))

    def declaration(self, task: Task) -> dict[str, str]:
        """What a task is declared with, part by part, to be compared with another declaration of it."""
        from twice.engine.code.code_hash import declaration

        return declaration(task)

    @cached_property
    def senders(self) -> dict[str, Sender]:
        from twice.wiring.senders import senders

        return senders(self.settings.effects)

    @cached_property
    def delivery(self) -> Delivery:
        """For sending alone: no session is started unless a text needs rows of its table."""
        from twice.runtime.effects.delivery import Delivery
        from twice.runtime.effects.send import delivery_of

        def sample(task: Task, effect: EffectRecord, count: int) -> Any:
            return delivery_of(self.context).sample(task, effect, count)

        senders, holder = self.senders, this_process()
        return Delivery(self.project, self.ledger, senders, SYSTEM_CLOCK, holder, sample, progress=self.progress)

    @cached_property
    def prover(self) -> Prover:
        return prover_of(self.settings.root)

    def close(self) -> None:
        """End what was opened, but for the Spark session, which lives as long as this process."""
        if "prover" in self.__dict__:
            self.prover.close()
        if "ledger" in self.__dict__:
            self.ledger.close()

    def _discover(self) -> Project:
        _leave_ended_spark()
        self.progress.begins("reading the pipelines", self.settings.project)
        return discover(self.settings.project, self.settings.root, self.settings.pipelines, self.settings.format)


def _once(of: Callable[[Task], _Found]) -> Callable[[Task], _Found]:
    """The same, found once for each task."""
    known: dict[str, _Found] = {}

    def found(task: Task) -> _Found:
        if task.name not in known:
            known[task.name] = of(task)
        return known[task.name]

    return found


def spark_is_running() -> bool:
    """Whether this process has a session, ours or a caller's. Nothing is imported to find out."""
    session = getattr(sys.modules.get("pyspark.sql"), "SparkSession", None)
    return getattr(session, "_instantiatedSession", None) is not None


def _leave_ended_spark() -> None:
    """If this process was attached to a warm one. Nothing is imported to find out."""
    attached = sys.modules.get("twice.engine.warm.attached")
    if attached is not None:
        attached.leave_ended()


@contextmanager
def open_project(
    folder: Path = Path(), profile: str | None = None, progress: Progress = SILENT
) -> Iterator[OpenProject]:
    """The project that `folder` is in. Its Spark session lives as long as this process."""
    opened = OpenProject(load(folder, profile), progress)
    try:
        yield opened
    finally:
        opened.close()


def prover_of(root: Path) -> Prover:
    """The process of proofs that are asked for in this folder. Close it."""
    from twice.proof.process.prover import Prover

    return Prover(root, PROOF_SERVER)


def session(folder: Path = Path(), profile: str | None = None) -> Any:
    """The project's Spark session, for tests and notebooks; the one already running, if there is one."""
    return OpenProject(load(folder, profile)).spark


def session_settings(settings: Settings) -> SessionSettings:
    """What this process starts Spark with."""
    from twice.engine.session.spark_conf import SessionSettings

    spark = settings.spark
    conf = {name: value.reveal() for name, value in spark.conf.items()}
    if spark.master != EMBEDDED:
        conf = {"spark.master": spark.master, **conf}
    folder = settings.root / ".twice"
    return SessionSettings(
        folder,
        settings.warehouse,
        short_jobs=spark.short_jobs,
        memory=spark.memory,
        conf=conf,
        scratch=scratch_name(),
        archive="use" if THROWN_AWAY in os.environ else "make",
        warm=spark.warm,
    )
