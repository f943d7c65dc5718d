"""A scratch copy: a clone of the task's table, a ledger of its own, senders that only record.

Inputs are read from the user's tables, each pinned to the version it had when the proof began. Nothing of the user's
is written: the copy is a shallow clone, whose log is in a temporary folder and refers to the user's data files. That
the task's own code writes nothing either is ensured by the process this runs in (`enclosure`).
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from twice.core.effect import Effect, Message, PublishedSlice
from twice.core.failure.failpoints import Point
from twice.core.ledger.outbox import Answer, Delivered
from twice.core.ports import OutgoingMessage, Sender, Target
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import Project
from twice.core.results.run import RunRequest, RunResult
from twice.core.retry import Retry
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.table.token import Kind
from twice.core.task import TableName, Task
from twice.engine.guard.suspects import REASONS
from twice.engine.spark import SparkEngine
from twice.errors import EnvironmentProblem
from twice.ledgers.ledger import Ledger
from twice.proof.enclosure.enclosure import Enclosure
from twice.proof.play import NotApplicable
from twice.proof.reads import Frames, Reads
from twice.proof.tasks.proof_targets import CopiedTable, PinnedTable
from twice.runtime.context import RunContext
from twice.runtime.run.run_many import run_slices
from twice.runtime.write_plan import make_write_plan


@dataclass(frozen=True)
class ChildRun:
    """What a child process does. `folder` is the scratch copy it works in, `point` where it is killed, if anywhere."""

    task: str
    label: str
    folder: Path
    point: Point | None

    def to_json(self) -> str:
        """For the command line of the child process."""
        return json.dumps([self.task, self.label, str(self.folder), self.point and self.point.value])

    @classmethod
    def from_json(cls, text: str) -> ChildRun:
        task, label, folder, point = json.loads(text)
        return cls(task, label, Path(folder), None if point is None else Point(point))


@dataclass(frozen=True)
class ProofSetup:
    """The user's run context, and what is needed to build another. `delta` binds a session to tables found by a
    function; `folder` gives the folder of a user's table, None if it is no Delta table in a folder; `child_command` is
    the command line of a child process (`child_process.carry_out`); `enclosure` is this process's."""

    context: RunContext
    delta: Callable[[Any, Callable[[TableName], str]], Target]
    folder: Callable[[TableName], str | None]
    child_command: Callable[[ChildRun], Sequence[str]] | None = None
    enclosure: Enclosure = field(default_factory=Enclosure)


@dataclass(frozen=True)
class Disturbance:
    """How a scratch copy differs from an undisturbed one: Spark's settings, and what is done to the inputs."""

    conf: Mapping[str, str] = field(default_factory=dict)
    inputs: Frames | None = None


UNDISTURBED = Disturbance()


@dataclass
class AdjustableClock:
    """The ledger's clock in a scratch copy: it can be put forward, so that no lease is waited for."""

    by: timedelta = timedelta(0)

    def now(self) -> datetime:
        return SYSTEM_CLOCK.now() + self.by

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def pass_an_hour(self) -> None:
        self.by += timedelta(hours=1)


@dataclass(frozen=True)
class RecordingSender:
    """A sender that records what would have been sent."""

    inner: Sender
    sent: list[OutgoingMessage]

    def compose(self, effect: Effect, result: PublishedSlice, key: str, at: datetime) -> Message:
        return self.inner.compose(effect, result, key, at)

    def send(self, outgoing: OutgoingMessage, leaving: Callable[[], None]) -> Answer:
        leaving()
        self.sent.append(outgoing)
        return Delivered("recorded, not sent: this is a proof")


@dataclass(frozen=True)
class Template:
    """What scratch copies are made from: an empty ledger, and the table as it was (`version` None: there was none)."""

    folder: Path
    version: int | None

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def copy_to(self, folder: Path) -> None:
        shutil.copytree(self.folder, folder)


@dataclass(frozen=True)
class ScratchCopy:
    """A folder, and the task in a run context that writes nowhere else. `sent`: what its effects would have sent;
    `reads`: what its function read."""

    folder: Path
    context: RunContext
    task: Task
    clock: AdjustableClock
    sent: list[OutgoingMessage]
    reads: Reads

    def run(self, slices: tuple[Slice, ...], kind: Kind = "run") -> tuple[RunResult, ...]:
        return run_slices(self.context, self.task, slices, RunRequest(kind))

    def rows(self, session: SparkSession, version: int | None = None) -> DataFrame:
        reader = session.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(str(self.folder / "table"))

    def version(self, session: SparkSession) -> int | None:
        return self.context.target_of(self.task.target, session).published(self.task.target, ()).version

    def close(self) -> None:
        self.context.ledger.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_template(setup: ProofSetup, task: Task, slices: tuple[Slice, ...], folder: Path) -> Template:
    """Clone the task's table. Reads the user's log; writes into `folder` alone."""
    source = setup.folder(task.target)
    if source is None:
        raise NotApplicable(f"{task.target} is not a Delta table, and no other is copied for a proof yet")
    made = Template(folder, None)
    folder.mkdir(parents=True)
    Ledger.open(f"sqlite:///{made.ledger}").close()
    # What was appended before cannot change what is appended now, and without its mark a task starts over.
    if isinstance(task.scope, Since) or task.write.kind == "append":
        return made
    with setup.context.session() as session:
        for version in _versions(setup, task, slices, session):
            if _cloned(session, made.table, source, version):
                return replace(made, version=version)
    return made


def _versions(setup: ProofSetup, task: Task, slices: tuple[Slice, ...], session: SparkSession) -> Iterator[int]:
    """From which version to copy: the one before the slice was published, so that publishing it is seen; or, where
    the log no longer has it, the newest."""
    target = setup.context.target_of(task.target, session)
    newest = target.published(task.target, ()).version
    if newest is None:
        return
    if task.write.kind == "upsert":
        token_names = make_write_plan(setup.context.project.id, task, slices).token_names
        held = [
            found.version
            for token_name in token_names
            for name, found in target.tokens(task.target, token_name).items()
            if name == token_name
        ]
        first = min((version for version in held if version is not None), default=None)
        if first == 0:
            return  # it made the table
        yield from () if first is None else (first - 1,)
    yield newest


def _cloned(session: SparkSession, to: Path, source: str, version: int) -> bool:
    """Whether that version could still be copied."""
    try:
        session.sql(f"CREATE TABLE delta.`{to}` SHALLOW CLONE delta.`{source}` VERSION AS OF {version}").collect()
    except AnalysisException:
        return False
    return True


def enter_copy(
    setup: ProofSetup,
    task: Task,
    folder: Path,
    pins: dict[TableName, int],
    disturbance: Disturbance = UNDISTURBED,
) -> ScratchCopy:
    """The scratch copy in that folder. `pins` grows by the inputs that are read first."""
    clock, sent, reads = AdjustableClock(), list[OutgoingMessage](), Reads(disturbance.inputs)
    played = _played(task, reads)
    base = setup.context.engine
    if not isinstance(base, SparkEngine):
        raise EnvironmentProblem("a proof needs Spark: it compares tables")
    project = setup.context.project
    own = project.located(task.target)

    def target_of(table: TableName, session: Any) -> Target:
        if project.located(table) == own:
            return CopiedTable(setup.delta(session, lambda _: str(folder / "table")))
        return PinnedTable(setup.context.target_of(table, session), pins)

    code = setup.context.code_hash(task)
    context = replace(
        setup.context,
        # Tokens of another project: in this copy the slice was never published, whatever the copy's log says.
        project=Project(f"{project.id}_proof", {**project.tasks, task.name: played}, project.format),
        ledger=Ledger.open(f"sqlite:///{folder / 'ledger.db'}", clock),
        engine=Disturbed(base.base, disturbance.conf),
        target_of=target_of,
        code_hash=lambda _: code,
        clock=clock,
        senders={kind: RecordingSender(sender, sent) for kind, sender in setup.context.senders.items()},
        sends=True,
    )
    return ScratchCopy(folder, context, played, clock, sent, reads)


@dataclass(frozen=True)
class Disturbed(SparkEngine):
    """The engine with some settings in every session it makes."""

    conf: Mapping[str, str] = field(default_factory=dict)

    def fresh(self) -> SparkSession:
        session = super().fresh()
        for name, value in self.conf.items():
            session.conf.set(name, value)
        return session


def _played(task: Task, reads: Reads) -> Task:
    """The task as it is played: past the guard, so that what it would refuse is seen; tried once."""

    @functools.wraps(task.function)
    def function(**given: Any) -> Any:
        arguments = {name: _watched(value, reads) for name, value in given.items()}
        with reads.watching():
            return task.function(**arguments)

    policy = replace(task.policy, allow=tuple(REASONS), retry=Retry(attempts=1))
    return replace(task, function=function, policy=policy)


def _watched(value: Any, reads: Reads) -> Any:
    if isinstance(value, DataFrame):
        return reads(value)
    if hasattr(value, "read") and hasattr(value, "slices"):  # the run itself: what it reads is an input too
        return replace(value, read=reads.through(value.read))
    return value
