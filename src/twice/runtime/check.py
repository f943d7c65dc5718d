"""check: does the ledger say what the targets say? It reads both and changes neither."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twice.core.ports import Held
from twice.core.record import AttemptRecord, RunRecord
from twice.runtime.attempt import place
from twice.runtime.rebuild import tokens_of
from twice.runtime.settle import lease_ran_out
from twice.runtime.workshop import Workshop


@dataclass(frozen=True)
class Difference:
    """Something that is not as it should be between two runs, and what puts it right. None of it endangers a table:
    every run looks at the table first."""

    where: str
    what: str
    fix: str


def check(shop: Workshop, session: Any) -> tuple[Difference, ...]:
    return (*_of_runs(shop, session), *_of_attempts(shop))


def _of_runs(shop: Workshop, session: Any) -> Iterator[Difference]:
    for task in shop.project.in_order():
        known = {run.label: run for run in shop.ledger.runs(task.name)}
        tokens = tokens_of(shop, task, session)
        for label in sorted(known.keys() | tokens.keys()):
            difference = _compared(known.get(label), tokens.get(label))
            if difference:
                yield Difference(place(task.name, (label,)), *difference)


def _compared(known: RunRecord | None, held: Held | None) -> tuple[str, str] | None:
    recorded = known.generation if known else 0
    landed = held.generation if held else 0
    if landed > recorded:
        return f"the table holds generation {landed}, the ledger knows of {recorded}", "twice ledger rebuild"
    if landed < recorded:
        return (
            f"the ledger knows of generation {recorded}, the table holds {landed}: it was recreated, or replaced by "
            "an older copy",
            "run it: the next run takes the table's word",
        )
    if known and held and held.note and known.attempt and known.attempt != held.note.attempt:
        return (
            f"generation {landed} is attempt {held.note.attempt[:8]}'s in the table, "
            f"{known.attempt[:8]}'s in the ledger: one of them belongs to another copy",
            "compare with twice history; then restate it",
        )
    return None


def _of_attempts(shop: Workshop) -> Iterator[Difference]:
    for attempt in shop.ledger.open_attempts():
        if lease_ran_out(shop.ledger, attempt):
            yield Difference(
                _where(attempt), f"attempt {attempt.id[:8]} ({attempt.holder}) went silent", "twice recover"
            )
    for attempt in shop.ledger.undiscarded():
        yield Difference(_where(attempt), f"attempt {attempt.id[:8]} may have left staged files", "twice gc")


def _where(attempt: AttemptRecord) -> str:
    return place(attempt.task, tuple(slice_.label for slice_ in attempt.slices))
