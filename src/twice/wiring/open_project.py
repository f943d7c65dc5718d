"""An opened project: its settings, tasks, ledger, session, targets and senders, each made when it is first needed.

Nothing heavy is imported before: `status` and `history` never start Spark. What is done with it is in `twice.project`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.config import Settings, load
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import Project
from twice.core.task import Task
from twice.errors import DeclarationError
from twice.ledgers.ledger import Ledger
from twice.proof.process.prover import Prover
from twice.runtime.context import RunContext
from twice.runtime.effects.delivery import Delivery
from twice.runtime.effects.send import delivery_of
from twice.runtime.holder import scratch_name, this_process
from twice.runtime.table.assign import assign_all
from twice.wiring.discover import discover
from twice.wiring.targets import Targets

if TYPE_CHECKING:
    from twice.core.ledger.outbox import EffectRecord
    from twice.core.ports import Sender
    from twice.engine.session.session import SessionSettings


NEEDS_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"
"""PySpark's own word for an error that a running session cures."""

EMBEDDED = "local[*]"
"""The default master: the session then takes the cores this process may use."""

PROOF_SERVER = "twice.wiring.proof_server"
"""Started by its name: importing it here would close a ring, since it opens projects."""


class OpenProject:
    """A project with its ledger and, once it is needed, its Spark session. Close it, or use `open_project`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

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
    def ledger(self) -> Ledger:
        return Ledger.open(self.settings.ledger_url, owner=record_owner_of(self.settings, self.project))

    @cached_property
    def spark(self) -> Any:
        """The session that is running in this process, or one that is started with the project's settings."""
        from twice.engine.session.session import check_tested

        session = self._start()
        if self.settings.internal:
            check_tested(session)
        return session

    def _start(self) -> Any:
        from twice.engine.session.session import base

        return base(_session_settings(self.settings))

    @cached_property
    def targets(self) -> Targets:
        return Targets(self.settings)

    @cached_property
    def context(self) -> RunContext:
        """What runs need. It starts Spark, and asks the tables which old records are their own."""
        from twice.engine.spark import SparkEngine

        targets = self.targets
        context = RunContext(
            project=self.project,
            ledger=self.ledger,
            engine=SparkEngine(self.spark),
            target_of=targets.of,
            release_session=targets.release,
            code_hash=self.code_hash,
            clock=SYSTEM_CLOCK,
            holder=this_process(),
            root=self.settings.root,
            lease=timedelta(seconds=self.settings.lease_seconds),
            senders=self.senders,
            sends=self.settings.effects.send,
        )
        assign_all(context)
        return context

    def code_hash(self, task: Task) -> str:
        """The hash of a task's code and options as they are now."""
        from twice.engine.code.code_hash import code_hash

        return code_hash(task)

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

        def sample(task: Task, effect: EffectRecord, count: int) -> Any:
            return delivery_of(self.context).sample(task, effect, count)

        return Delivery(self.project, self.ledger, self.senders, SYSTEM_CLOCK, this_process(), sample)

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
        return discover(self.settings.project, self.settings.root, self.settings.pipelines, self.settings.format)


@contextmanager
def open_project(folder: Path = Path(), profile: str | None = None) -> Iterator[OpenProject]:
    """The project that `folder` is in. Its Spark session lives as long as this process."""
    opened = OpenProject(load(folder, profile))
    try:
        yield opened
    finally:
        opened.close()


def prover_of(root: Path) -> Prover:
    """The process of proofs that are asked for in this folder. Close it."""
    return Prover(root, PROOF_SERVER)


def session(folder: Path = Path(), profile: str | None = None) -> Any:
    """The project's Spark session, for tests and notebooks; the one already running, if there is one."""
    return OpenProject(load(folder, profile)).spark


def _session_settings(settings: Settings) -> SessionSettings:
    from twice.engine.session.session import SessionSettings

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
    )


def record_owner_of(settings: Settings, project: Project) -> RecordOwner:
    """With a name of the user's, one environment for all tables; without one, each table belongs to the location
    of its table system (`Settings.warehouse_name`)."""
    targets = Targets(settings)
    tables = {name: _table(settings, project, targets, task) for name, task in project.tasks.items()}
    systems = {task.target.format or project.format for task in project.tasks.values()}
    retired = {
        old: settings.environment or found.here for found in map(targets.location, systems) for old in found.formerly
    }
    return RecordOwner(settings.project, settings.environment or settings.warehouse_name, tables, retired)


def _table(settings: Settings, project: Project, targets: Targets, task: Task) -> TaskTable:
    system = task.target.format or project.format
    table = f"{system}:{task.target.name}"
    names = tuple(dict.fromkeys((*task.formerly, task.name))) if task.formerly else ()
    try:
        found = targets.location(system)
    except DeclarationError as error:
        error.what += f"; {task.name} writes {task.target}, and its records in the ledger are kept by that server"
        raise
    if settings.environment is None:
        return TaskTable(found.here, table, found.known_as, found.formerly, names)
    before = tuple(dict.fromkeys((found.here, found.known_as, *found.formerly)))
    return TaskTable(settings.environment, table, formerly=before, names=names)
