"""Where scenarios are played: scratch copies made from one template, each compared with one clean run."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from twice.core.ledger.outbox import EffectState
from twice.core.ports import ALL_ROWS, Suspicion
from twice.core.results.proof import Difference
from twice.core.slice import Slice
from twice.core.task import TableName, Task
from twice.engine.frames.compare import compare, content
from twice.engine.guard.guard import likely, suspicions
from twice.engine.lineage.non_table_inputs import literals
from twice.proof.blame import blame
from twice.proof.disturb import ordered
from twice.proof.effect_counts import compare_effects
from twice.proof.play import NotApplicable
from twice.proof.reads import DisturbedReads, passed
from twice.proof.tasks.scratch import (
    UNDISTURBED,
    Disturbance,
    ProofSetup,
    ScratchCopy,
    Template,
    enter_copy,
    make_template,
)
from twice.runtime.result.compute import result_frame
from twice.runtime.result.pins import Pins

_ALL = 100_000


@dataclass(frozen=True)
class Clean:
    """The table after one run that nothing disturbed: `copy` at `version`."""

    copy: ScratchCopy
    version: int
    content: str
    effects: Counter[str]


@dataclass
class ProofSession:
    """One proof at work. `likely`: what in the plan may differ; `refused`: what of it `twice run` refuses; `drift`: a
    constant of the plan as two calls of the task's Python gave it; `ignored`: columns the task's policy lets differ."""

    setup: ProofSetup
    task: Task
    slices: tuple[Slice, ...]
    folder: Path
    session: SparkSession
    template: Template
    pins: dict[TableName, int] = field(default_factory=dict)
    likely: tuple[Suspicion, ...] = ()
    refused: tuple[Suspicion, ...] = ()
    drift: tuple[str, str] | None = None
    ignored: tuple[str, ...] = ()
    made: int = 0

    @cached_property
    def reached(self) -> DisturbedReads:
        """Which of the task's reads a disturbance reaches. The plan is built once more; no job runs."""
        with self.copy(Disturbance(inputs=ordered(descending=False))) as copy, copy.context.session() as session:
            frame = result_frame(copy.context, copy.task, self.slices, Pins(copy.context, session))
            return DisturbedReads(copy.reads.frames, passed(frame))

    @contextmanager
    def copy(self, disturbance: Disturbance = UNDISTURBED) -> Iterator[ScratchCopy]:
        self.made += 1
        self._begins("copying the table")
        folder = self.folder / f"copy{self.made}"
        self.template.copy_to(folder)
        copy = enter_copy(self.setup, self.task, folder, self.pins, disturbance)
        try:
            yield copy
        finally:
            copy.close()

    def clean(self, copy: ScratchCopy) -> Clean:
        """Play the one clean run in this scratch copy, and remember what it gave."""
        copy.run(self.slices)
        self._begins("remembering what the clean run gave")
        self.likely, self.drift = self._suspects(copy)
        self.ignored = self._ignored()
        version = copy.version(self.session)
        if version is None:
            raise NotApplicable("a clean run finds nothing to publish")
        rows = copy.rows(self.session, version)
        return Clean(copy, version, content(rows, self.ignored), count_effects(copy))

    def difference(self, clean: Clean, copy: ScratchCopy) -> Difference | None:
        """How a scratch copy's table and effects differ from the clean run's; None if they do not."""
        return effects_differ(clean.effects, copy) or self.rows_differ(clean, copy)

    def rows_differ(self, clean: Clean, copy: ScratchCopy) -> Difference | None:
        self._begins("comparing with the clean run")
        after = copy.rows(self.session)
        if content(after, self.ignored) == clean.content:
            return None
        return self._compared(clean.copy.rows(self.session, clean.version), after)

    def copies_differ(self, one: ScratchCopy, other: ScratchCopy) -> Difference | None:
        """How the tables of two scratch copies differ, where a clean run of one slice shows nothing about them."""
        self._begins("comparing the tables")
        return self._compared(one.rows(self.session), other.rows(self.session))

    def _compared(self, before: DataFrame, after: DataFrame) -> Difference | None:
        found = compare(before, after, self.ignored)
        return None if found is None else replace(found, causes=blame(found, self.likely, self.drift))

    def _begins(self, step: str) -> None:
        self.setup.context.progress.begins(step, self.task.name)

    def _suspects(self, copy: ScratchCopy) -> tuple[tuple[Suspicion, ...], tuple[str, str] | None]:
        """Build the plan twice, and find what in it may differ and what does."""
        with copy.context.session() as session:
            frames = [result_frame(copy.context, copy.task, self.slices, Pins(copy.context, session)) for _ in range(2)]
            first, second = (literals(frame) for frame in frames)
            self.refused = tuple(one for one in suspicions(frames[0]) if one.name not in self.task.policy.allow)
            odd = [(one, two) for one, two in zip(first, second, strict=False) if one != two]
            return likely(frames[0]), odd[0] if odd else None

    def _ignored(self) -> tuple[str, ...]:
        """Columns that only differ by what the task's policy lets differ. Which rows there are is never ignored."""
        allowed = [one for one in self.likely if one.name in self.task.policy.allow]
        return tuple(dict.fromkeys(name for one in allowed for name in one.columns if name != ALL_ROWS))


@contextmanager
def open_proof_session(setup: ProofSetup, task: Task, slices: tuple[Slice, ...]) -> Iterator[ProofSession]:
    """Everything in one temporary folder, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="twice-proof-") as place, setup.context.session() as session:
        folder = Path(place)
        template = make_template(setup, task, slices, folder / "template")
        yield ProofSession(setup, task, slices, folder, session, template)


def count_effects(copy: ScratchCopy) -> Counter[str]:
    """By effect: how often its receiver acted. One that goes by a key acts once per key. What is in doubt counts as
    sent: a person decides on it."""
    outbox = copy.context.ledger.outbox
    names = {record.key: record.name for record in outbox.listed((), copy.task.name, _ALL)}
    acted: Counter[str] = Counter()
    keys: set[str] = set()
    for outgoing in copy.sent:
        if not outgoing.keyed or outgoing.key not in keys:
            acted[names.get(outgoing.key, outgoing.key)] += 1
        keys.add(outgoing.key)
    for record in outbox.listed((EffectState.IN_DOUBT,), copy.task.name, _ALL):
        acted[record.name] += record.key not in keys
    return +acted


def effects_differ(clean: Counter[str], copy: ScratchCopy) -> Difference | None:
    """None if the same was sent as often."""
    fix = "Give the receiver a key (webhook(…, idempotency_key=True)), so that it acts once."
    return compare_effects(clean, count_effects(copy), "effect", fix)
