"""Settings in, a working project out: the only place that picks implementations.

Nothing heavy is imported before it is needed: `status` and `history` never start Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.config import Settings, load
from twice.core.calendar import Page, calendar
from twice.core.clock import SYSTEM_CLOCK
from twice.core.graph import Node, graph
from twice.core.project import Project
from twice.core.record import AttemptRecord, Overview, RunRecord
from twice.core.run import RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.since import Since, mark_text
from twice.core.slice import Slice
from twice.core.task import Task
from twice.core.time_scope import TimeScope
from twice.core.token import Kind
from twice.errors import DeclarationError, TwiceError, UsageError
from twice.ledgers.ledger import Ledger
from twice.runtime.table.kept_mark import kept_mark
from twice.wiring.backfills import ProjectBackfills
from twice.wiring.discover import discover
from twice.wiring.homes import home_of
from twice.wiring.targets import Targets

if TYPE_CHECKING:
    from twice.core.outbox import EffectEvent, EffectRecord, EffectState
    from twice.core.ports import Frame, Sender
    from twice.core.proof import Proof, ProofRecord
    from twice.engine.session.doctor import Check
    from twice.engine.session.session import SessionSettings
    from twice.runtime.context import RunContext
    from twice.runtime.effects.delivery import Delivery
    from twice.runtime.effects.send import Resolution
    from twice.runtime.run.explain import Explanation
    from twice.runtime.run.run_many import TaskEnd
    from twice.runtime.staleness.stale import Stale
    from twice.runtime.table.garbage import RemovedFiles
    from twice.runtime.upkeep.check import Difference
    from twice.runtime.upkeep.mark import Mark
    from twice.runtime.upkeep.prune import Tidied
    from twice.runtime.upkeep.rebuild import Rebuilt
    from twice.runtime.upkeep.recover import Recovered
    from twice.wiring.prover import Prover


NEEDS_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"
"""PySpark's own word for an error that a running session cures."""

EMBEDDED = "local[*]"
"""The default master: the session then takes the cores this process may use."""


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
        ledger = Ledger.open(self.settings.ledger_url, home=home_of(self.settings, self.project))
        for task in self.project.tasks.values():
            for old in task.formerly:
                if old != task.name:  # renamed, and renamed back
                    ledger.rename(old, task.name)
        return ledger

    @cached_property
    def spark(self) -> Any:
        from twice.engine.session.session import base, check_tested

        session = base(_session_settings(self.settings))
        if self.settings.internal:
            check_tested(session)
        return session

    @cached_property
    def targets(self) -> Targets:
        return Targets(self.settings)

    @cached_property
    def context(self) -> RunContext:
        from twice.engine.code.code_hash import code_hash
        from twice.engine.spark import SparkEngine
        from twice.runtime.context import RunContext
        from twice.runtime.holder import this_process
        from twice.runtime.table.assign import assign_all

        targets = self.targets
        context = RunContext(
            project=self.project,
            ledger=self.ledger,
            engine=SparkEngine(self.spark),
            target_of=targets.of,
            let_go=targets.let_go,
            code_hash=code_hash,
            clock=SYSTEM_CLOCK,
            holder=this_process(),
            root=self.settings.root,
            lease=timedelta(seconds=self.settings.lease_seconds),
            senders=self.senders,
            sends=self.settings.effects.send,
        )
        assign_all(context)
        return context

    @cached_property
    def senders(self) -> dict[str, Sender]:
        from twice.wiring.senders import senders

        return senders(self.settings.effects)

    @cached_property
    def delivery(self) -> Delivery:
        """For sending alone: no session is started unless a text needs rows of its table."""
        from twice.runtime.effects.delivery import Delivery
        from twice.runtime.effects.send import delivery_of
        from twice.runtime.holder import this_process

        def sample(task: Task, effect: EffectRecord, count: int) -> Any:
            return delivery_of(self.context).sample(task, effect, count)

        return Delivery(self.project, self.ledger, self.senders, SYSTEM_CLOCK, this_process(), sample)

    @property
    def backfills(self) -> ProjectBackfills:
        return ProjectBackfills(self)

    def slices(
        self, task: str, date: str | None, interval: tuple[datetime, datetime] | None = None
    ) -> tuple[Slice, ...]:
        """What the caller asked for, checked before any session is started."""
        scope = self.project.task(task).scope
        if interval is None:
            return (slice_named(scope, date),)
        if not isinstance(scope, TimeScope):
            raise UsageError("this task's work is not cut by time; it has no interval", where=task, fix="Leave it out.")
        return tuple(scope.between(*interval))

    def run(
        self, task: str, slices: tuple[Slice, ...], kind: Kind, wait: timedelta | None, silent: bool = False
    ) -> tuple[RunResult, ...]:
        from twice.runtime.run.run_many import run_slices

        return run_slices(self.context, self.project.task(task), slices, RunRequest(kind, wait, silent))

    def run_all(self, date: str | None, wait: timedelta | None) -> tuple[TaskEnd, ...]:
        from twice.runtime.run.run_many import run_all

        return run_all(self.context, date, wait)

    def stale(self, task: str | None) -> tuple[Stale, ...]:
        """What the ledger knows to be stale, and why. No session is started for it."""
        from twice.engine.code.code_hash import code_hash
        from twice.runtime.staleness.stale import stale_slices

        chosen = self.project.in_order() if task is None else (self.project.task(task),)
        return tuple(each for one in chosen for each in stale_slices(self.project, self.ledger, one, code_hash(one)))

    def retry(self, task: str | None, date: str | None, wait: timedelta | None) -> tuple[TaskEnd, ...]:
        """One slice, or all failed ones of one task or of every task, in the order of their inputs."""
        from twice.runtime.run.run_many import TaskEnd, retry_slices, run_in_order
        from twice.runtime.staleness.stale import failed_labels

        if task is not None and date is not None:
            chosen = self.project.task(task)
            slice_ = slice_named(chosen.scope, date)
            return (TaskEnd(chosen.name, retry_slices(self.context, chosen, (slice_,), wait)),)
        names = self.project.tasks if task is None else [self.project.task(task).name]
        labels = {name: found for name in names if (found := failed_labels(self.ledger, name))}
        if not labels:
            return ()

        def again(each: Task) -> tuple[RunResult, ...]:
            slices = tuple(slice_named(each.scope, label) for label in labels.get(each.name, ()))
            return retry_slices(self.context, each, slices, wait)

        return tuple(end for end in run_in_order(self.project, again) if end.task in labels)

    def plan(self, task: str, date: str | None) -> tuple[Explanation, ...]:
        from twice.runtime.run.explain import explain

        declared = self.project.task(task)
        return (explain(self.context, declared, slice_named(declared.scope, date)),)

    def preview(self, task: Task, date: str | None) -> Frame:
        from twice.runtime.result.compute import Pins, result_frame

        slice_ = slice_named(task.scope, date)
        return result_frame(self.context, task, (slice_,), Pins(self.context, self.context.engine.fresh()))

    def prove(self, task: str, date: str | None, scenarios: Sequence[str] = ()) -> Proof:
        """Play the scenarios with one slice, in a scratch copy and in a process that is closed in. Of the project only
        its ledger is written, by this process."""
        from twice.wiring.input_copies import copied_inputs
        from twice.wiring.prover import ProveTask

        declared = self.project.task(task)
        slice_named(declared.scope, date)  # before a process is started for nothing
        copies = copied_inputs(self, declared, self.prover.fresh_folder())
        asked = ProveTask(self.settings.root, self.settings.profile, declared.name, date, tuple(scenarios), copies)
        proof = self.prover.ask(asked)
        self.ledger.record_proof(proof)
        return proof

    @cached_property
    def prover(self) -> Prover:
        from twice.wiring.prover import Prover

        return Prover(self.settings.root)

    def proofs(self) -> dict[str, tuple[ProofRecord, bool]]:
        """The last proof of each task of the project, and whether it is of the task's code as it is now."""
        from twice.engine.code.code_hash import code_hash

        tasks = self.project.tasks
        found = self.ledger.proofs()
        return {name: (found[name], found[name].code_hash == code_hash(tasks[name])) for name in tasks if name in found}

    def mark(self, task: str) -> Mark:
        from twice.runtime.upkeep.mark import incremental, show_mark

        declared = self.project.task(task)
        incremental(declared)  # before a session is started for nothing
        return show_mark(self.context, declared)

    def reset_mark(self, task: str, to: str | None, by: str, reason: str) -> tuple[Mark, Mark]:
        from twice.runtime.upkeep.mark import Reset, reset_mark

        return reset_mark(self.context, self.project.task(task), Reset(to, by, reason))

    def other_owners(self, task: str) -> Mapping[str, int]:
        """Whose slices stand in the way of this task in its table, and how many."""
        from twice.runtime.upkeep.takeover import other_owners_of

        return other_owners_of(self.context, self.project.task(task))

    def take_over(self, task: str, by: str, reason: str) -> Mapping[str, int]:
        from twice.runtime.upkeep.takeover import Takeover, take_over

        return take_over(self.context, self.project.task(task), Takeover(by, reason))

    def graph(self) -> tuple[Node, ...]:
        return graph(self.project)

    def status(self, task: str | None, limit: int) -> Overview:
        name = self.project.task(task).name if task else None
        return self.ledger.overview(name, limit)

    def calendar(self, task: str) -> tuple[Page, ...]:
        declared = self.project.task(task)
        if not isinstance(declared.scope, TimeScope):
            raise UsageError("this task's work is not cut by time; it has no calendar", where=task, fix="Leave it out.")
        stale = {each.slice.label for each in self.stale(declared.name)}
        return calendar(declared.scope, self.ledger.runs(declared.name), stale)

    def marks(self, runs: Sequence[RunRecord]) -> dict[tuple[str, str], str]:
        """The runs of incremental tasks, whose generation stands for a mark, with that mark."""
        found = {}
        for run in runs:
            declared = self.project.tasks.get(run.task)
            if declared is None or not isinstance(declared.scope, Since):
                continue
            try:
                mark = kept_mark(self.ledger, declared, declared.scope, run.generation)
            except DeclarationError:
                continue  # its next run says why
            if mark is not None:
                found[run.task, run.label] = mark_text(mark)
        return found

    def history(self, task: str, date: str | None, limit: int) -> tuple[AttemptRecord, ...]:
        declared = self.project.task(task)
        label = slice_named(declared.scope, date).label if date is not None else None
        return self.ledger.attempts(declared.name, label, limit)

    def effects(self, states: tuple[EffectState, ...], task: str | None, limit: int) -> tuple[EffectRecord, ...]:
        name = self.project.task(task).name if task else None
        return self.ledger.outbox.listed(states, name, limit)

    def effect(self, id_: int) -> tuple[EffectRecord, tuple[EffectEvent, ...]]:
        found = self.ledger.outbox.find(id_)
        if found is None:
            raise UsageError(f"there is no effect {id_}", fix="See them: twice effects list.")
        return found, self.ledger.outbox.events(id_)

    def send_effects(self, task: str | None, wait: timedelta) -> int:
        from twice.runtime.effects.delivery import drain, render_released

        name = self.project.task(task).name if task else None
        render_released(self.delivery, name)
        return drain(self.delivery, name, wait)

    def resolve_effect(
        self, id_: int, word: Resolution, who: str, reason: str, *, sender_is_gone: bool
    ) -> EffectRecord:
        from twice.runtime.effects.send import resolve

        return resolve(self.delivery, id_, word, who, reason, sender_is_gone=sender_is_gone)

    def recover(self) -> tuple[Recovered, ...]:
        from twice.runtime.upkeep.recover import recover

        return recover(self.context, self.context.engine.fresh())

    @property
    def open_attempts(self) -> tuple[AttemptRecord, ...]:
        """Also those on tables that tasks wrote before they were given another one."""
        before = (a for task, _, there in self.ledger.left_open() for a in there.open_attempts(task))
        return (*self.ledger.open_attempts(), *before)

    def gc(self) -> tuple[RemovedFiles, ...]:
        from twice.runtime.holder import clear_scratch
        from twice.runtime.table.garbage import collect_garbage

        clear_scratch(self.settings.root / ".twice" / "scratch")
        return collect_garbage(self.context, self.context.engine.fresh())

    def migrate_ledger(self) -> tuple[str | None, str]:
        """The schema's version before and after. Nothing but the ledger is opened: a task's file may be broken."""
        return Ledger.migrate(self.settings.ledger_url)

    @property
    def tables_to_ask(self) -> tuple[str, ...]:
        """The tasks that have records from before the ledger knew whose they are, and whose tables were not asked yet
        which are their own. Whatever looks at tables asks them."""
        from twice.runtime.table.assign import names_of

        tasks = self.project.tasks
        return self.ledger.unassigned.waiting({name: names_of(task) for name, task in tasks.items()})

    def take_unassigned(self, task: str) -> None:
        from twice.runtime.table.assign import names_of

        declared = self.project.task(task)
        self.context.ledger.unassigned.take_rest(declared.name, names_of(declared))  # the tables were asked first

    def check_ledger(self) -> tuple[Difference, ...]:
        from twice.runtime.upkeep.check import check

        return check(self.context, self.context.engine.fresh())

    def rebuild_ledger(self) -> tuple[Rebuilt, ...]:
        from twice.runtime.upkeep.rebuild import rebuild

        return rebuild(self.context, self.context.engine.fresh())

    def prune_ledger(self, older_than: timedelta) -> Tidied:
        from twice.runtime.upkeep.prune import prune

        return prune(self.context, self.context.engine.fresh(), older_than)

    def export_ledger(self) -> Iterator[dict[str, Any]]:
        return self.ledger.export()

    def close(self) -> None:
        if "prover" in self.__dict__:
            self.prover.close()
        if "ledger" in self.__dict__:
            self.ledger.close()

    def _discover(self) -> Project:
        return discover(self.settings.project, self.settings.root, self.settings.pipelines, self.settings.format)


@contextmanager
def open_project(folder: Path = Path(), profile: str | None = None) -> Iterator[OpenProject]:
    """The project that `folder` lies in. Its Spark session lives as long as this process."""
    opened = OpenProject(load(folder, profile))
    try:
        yield opened
    finally:
        opened.close()


def session(folder: Path = Path(), profile: str | None = None) -> Any:
    """The project's Spark session, for tests and notebooks; the one already running, if there is one."""
    return OpenProject(load(folder, profile)).spark


def check_machine() -> tuple[Check, ...]:
    """`twice doctor`: what this machine has, inside a project or anywhere else."""
    from twice.engine.session.doctor import checks
    from twice.wiring.probe import publish_a_day

    internal = _internal_here()
    return checks(probes={"publish": partial(publish_a_day, internal=internal)}, internal=internal)


def _internal_here() -> bool:
    """What the project of this folder says of Delta's own classes; what it would by default, where there is none."""
    try:
        return load(Path()).internal
    except TwiceError:
        return True


def _session_settings(settings: Settings) -> SessionSettings:
    from twice.engine.session.session import SessionSettings
    from twice.runtime.holder import scratch_name

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
