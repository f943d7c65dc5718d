"""What a target shows, compared with what the rules allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy

from twice.core.ledger.outbox import EffectState
from twice.core.results.run import Outcome, RunResult
from twice.core.since import mark_text
from twice.errors import TableTaken
from twice.runtime.upkeep.mark import show_mark

from .game import Game
from .model import Model
from .project import WITH_EFFECTS
from .steps import INCREMENTAL, Row, Run

REFUSED = "refused"
"""The mark of a table that is another task's."""


def check_message(game: Game, step: Run, before: Counter[Row], results: Sequence[RunResult]) -> None:
    """What others changed is reported as such; what is restated is IDENTICAL only if no row changed."""
    warehouses, declared = game.warehouses, game.declared(step.side)
    label = None if step.task in INCREMENTAL else declared.label_of(step.task, step.day)
    concerned = (step.side, declared.name_of(step.task), label)
    for result in results:
        if result.outcome not in (Outcome.ALREADY, Outcome.NOTHING_NEW):
            game.foreign.discard(concerned)
        elif warehouses.shows_foreign and concerned in game.foreign:
            assert any("by others" in note for note in result.notes), f"{step}: {result.notes}"
        if result.outcome is Outcome.IDENTICAL:
            after = warehouses.rows(step.side, f"shop.{step.task}")
            assert before == after, f"{step}: {dict(before - after)} is gone, {dict(after - before)} is new"
    if not results:
        game.foreign.discard(concerned)


def compare(game: Game, when: str) -> None:
    """What the tables hold is allowed; whatever it rules out is forgotten."""
    for side in (0, 1):
        possible = game.possible[side]
        names = list(possible[0].tables)
        held = {name: game.warehouses.rows(side, f"shop.{name}") for name in names}
        marks = {name: _mark(game, side, name) for name in INCREMENTAL}
        fitting = [model for model in possible if model.tables == held and _marks(model) == marks]
        if not fitting:
            raise AssertionError(_difference(possible[-1], held, marks, f"side {side} {when}"))
        game.possible[side] = _distinct(fitting)


def _mark(game: Game, side: int, table: str) -> str | None:
    try:
        return show_mark(game.warehouses.context(side), game.task(side, table)).at
    except TableTaken:
        return REFUSED


def _marks(model: Model) -> dict[str, str | None]:
    found = {table: model.marks.get(model.declared.name_of(table)) for table in INCREMENTAL}
    shown = {table: mark_text(mark) if mark else None for table, mark in found.items()}
    return {table: REFUSED if model.refuses(table) else mark for table, mark in shown.items()}


def _distinct(models: Sequence[Model]) -> list[Model]:
    found: list[Model] = []
    for model in models:
        if model not in found:
            found.append(deepcopy(model))
    return found


def _difference(model: Model, held: dict[str, Counter[Row]], marks: dict[str, str | None], when: str) -> str:
    wrong = [
        f"{name}: {dict(held[name] - rows)} too much, {dict(rows - held[name])} missing"
        for name, rows in model.tables.items()
        if held[name] != rows
    ]
    return f"{when}: {wrong or ''} marks {marks}, allowed {_marks(model)}"


def check_effects(game: Game, side: int) -> None:
    """Of every published slice once: not twice; and not never, unless a person must say so, or its task is not declared
    any more."""
    context, sent = game.warehouses.context(side), Counter(game.warehouses.sent[side])
    assert all(count == 1 for count in sent.values()), f"sent twice: {sent}"
    declared = {game.declared(side).name_of(table) for table in WITH_EFFECTS}
    for name, label in game.possible[side][0].published:
        if name not in declared or (name, label) in game.possible[side][0].adopted:
            continue
        known = context.ledger.outbox.last_counted(name, label, "announce")
        assert known is not None, f"no effect was to be sent for {name} {label}"
        in_doubt = known.state is EffectState.IN_DOUBT
        assert sent[name, label] == 1 or in_doubt, f"side {side}: {name} {label}: {known.state}"
