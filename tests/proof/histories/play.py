"""A history, played on a real target and on the model side by side, compared after every step."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import twice
from twice.core.failure.failpoints import Crash, Point, SendPoint, armed, crash_at
from twice.core.ledger.outbox import EffectState
from twice.core.results.run import Outcome, RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.since import Since, mark_text
from twice.core.task import Task
from twice.errors import AuditFailed
from twice.runtime.context import RunContext
from twice.runtime.effects.send import send_pending
from twice.runtime.run.run_many import run_slices
from twice.runtime.upkeep.mark import Reset, reset_mark, show_mark
from twice.runtime.upkeep.recover import recover

from .model import Model
from .project import WITH_EFFECTS, evolving
from .steps import (
    DAYS,
    INCREMENTAL,
    START,
    Arrive,
    AtCall,
    AtPoint,
    Death,
    Delete,
    FailEvolving,
    How,
    MoveInitial,
    ResetMark,
    Row,
    Run,
    Step,
    Withdraw,
    row_of,
)

SOURCES = str(Path(twice.__file__).parent)


class Warehouses(Protocol):
    """A target under test: two warehouses on one ledger, each with a source that other people write."""

    sent: list[list[tuple[str, str]]]
    """By side: (task, slice) of every effect that went out."""
    shows_foreign: bool
    """Whether the target can tell that somebody else changed a slice."""

    def context(self, side: int) -> RunContext: ...

    def arrive(self, side: int, rows: Sequence[Row]) -> None: ...

    def delete(self, side: int, table: str, id_: int) -> None: ...

    def withdraw(self, side: int, id_: int) -> None:
        """The source loses rows."""

    def rows(self, side: int, table: str) -> Counter[Row]:
        """Empty for a table that does not exist yet."""

    def columns(self, side: int, table: str) -> list[str]:
        """Those that a reader sees; none of a table that does not exist yet, or was never published."""

    def declare(self, initial: Any) -> None:
        """The project again, with another `initial` of its incremental tasks."""

    def pass_time(self) -> None:
        """Longer than any lease."""


@dataclass
class Game:
    warehouses: Warehouses
    possible: list[list[Model]] = field(default_factory=lambda: [[Model()], [Model()]])
    """By side: every state that the rules and what was seen so far allow."""
    foreign: set[tuple[int, str, date | None]] = field(default_factory=set)
    """Side, task and day (None where it has a mark) of what was published before somebody else deleted rows: from that
    day, or from the table, where a slice owns no rows."""


def play(warehouses: Warehouses, history: Sequence[Step]) -> None:
    """Every step on both, compared after each; at the end whatever was run is run again."""
    game = Game(warehouses)
    for step in history:
        _take(game, step)
        _compare(game, f"after {step}")
    for side, name, day in sorted({(step.side, step.task, step.day) for step in history if isinstance(step, Run)}):
        _take(game, Run(side, name, day))
        _compare(game, f"after {name} {day} was run again")
    for side in (0, 1):
        context = warehouses.context(side)
        recover(context, context.engine.fresh())
        send_pending(context)
        assert not context.ledger.open_attempts(), "attempts stay open"
        _check_effects(game, side)


def _take(game: Game, step: Step) -> None:
    match step:
        case Arrive():
            _arrive(game, step)
        case Delete():
            _delete(game, step)
        case Withdraw():
            _withdraw(game, step)
        case ResetMark():
            _reset(game, step)
        case MoveInitial():
            initial = START + timedelta(minutes=step.minutes)
            game.warehouses.declare(initial)
            for model in (model for side in game.possible for model in side):
                model.initial = initial
        case FailEvolving():
            _fail_evolving(game, step)
        case Run():
            if game.possible[step.side][0].source:  # a task whose input does not exist is another story
                _run(game, step)


def _arrive(game: Game, step: Arrive) -> None:
    known = game.possible[step.side][0].source
    rows = [row for row in dict.fromkeys(row_of(drawn) for drawn in step.rows) if row not in known]
    if rows:
        game.warehouses.arrive(step.side, rows)
        for model in game.possible[step.side]:
            model.arrive(rows)


def _withdraw(game: Game, step: Withdraw) -> None:
    if any(row[0] == step.id for row in game.possible[step.side][0].source):
        game.warehouses.withdraw(step.side, step.id)
        for model in game.possible[step.side]:
            model.withdraw(step.id)


def _reset(game: Game, step: ResetMark) -> None:
    models, to = game.possible[step.side], START + timedelta(minutes=step.minutes)
    if all(step.task not in model.marks for model in models):
        return  # nothing is published, and there is no mark to reset
    context = game.warehouses.context(step.side)
    before, _ = reset_mark(context, context.project.task(step.task), Reset(mark_text(to), "ana", "to read it again"))
    for model in models:
        model.reset(step.task, to)
    if before.at != mark_text(to):
        game.foreign.discard((step.side, step.task, None))  # it is a commit of ours: what came before is history


def _delete(game: Game, step: Delete) -> None:
    models = game.possible[step.side]
    gone = {row[1] for row in models[0].tables[step.task] if row[0] == step.id}
    if not gone:
        return
    game.warehouses.delete(step.side, f"shop.{step.task}", step.id)
    for model in models:
        model.delete(step)
    if step.task in INCREMENTAL:
        game.foreign.add((step.side, step.task, None))
        return
    known = {day for task, day in models[0].published if task == step.task}
    concerned = known & gone if step.task == "daily" else known
    game.foreign |= {(step.side, step.task, day) for day in concerned}


def _fail_evolving(game: Game, step: FailEvolving) -> None:
    """Neither a row nor a column of it may be seen."""
    if not any(row[1] == DAYS[step.day] for row in game.possible[step.side][0].source):
        return
    context = game.warehouses.context(step.side)
    before = game.warehouses.columns(step.side, "shop.daily")
    try:
        run_slices(
            context, evolving(context.project), (_slice(evolving(context.project), step.day),), RunRequest("restate")
        )
    except AuditFailed:
        pass
    else:
        raise AssertionError("the audit did not fail")
    assert game.warehouses.columns(step.side, "shop.daily") == before


def _run(game: Game, step: Run) -> None:
    warehouses, context = game.warehouses, game.warehouses.context(step.side)
    before = warehouses.rows(step.side, f"shop.{step.task}") if step.restate else Counter()
    results, died = _attempt(context, step)
    if died and (isinstance(step.death, AtCall) or (isinstance(step.death, AtPoint) and step.death.how is How.KILL)):
        warehouses.pass_time()
    models = [after for model in game.possible[step.side] for after in model.after(step if died else _whole(step))]
    game.possible[step.side] = models
    _check_message(game, step, before, results)


def _whole(step: Run) -> Run:
    return Run(step.side, step.task, step.day, None, step.restate)


def _attempt(context: RunContext, step: Run) -> tuple[Sequence[RunResult], bool]:
    """What it says, and whether it died; a run that was to die may end before it comes to that place."""
    declared = context.project.task(step.task)
    kind: Any = "restate" if step.restate else "run"
    ended: list[bool] = []
    try:
        with _dying(step.death, ended):
            return run_slices(context, declared, (_slice(declared, step.day),), RunRequest(kind)), bool(ended)
    except (Crash, KeyboardInterrupt, Exception):
        if not ended:
            raise
        return (), True


def _slice(declared: Task, day: int) -> Any:
    return slice_named(declared.scope, None if isinstance(declared.scope, Since) else DAYS[day].isoformat())


@contextmanager
def _dying(death: Death | None, ended: list[bool]) -> Iterator[None]:
    match death:
        case None:
            yield
        case AtCall(number):
            with _interrupted_at(number, ended):
                yield
        case AtPoint(point, how):
            with armed(_ending(point, how, ended)), _terminated():
                yield


def _ending(point: Point, how: How, ended: list[bool]) -> Callable[[Point | SendPoint], None]:
    def act(passed: Point | SendPoint) -> None:
        if passed is not point or ended:
            return
        ended.append(True)
        match how:
            case How.KILL:
                crash_at(point)(passed)
            case How.ERROR:
                raise RuntimeError(f"something went wrong at {point.value}")
            case How.CTRL_C:
                raise KeyboardInterrupt
            case How.SIGTERM:
                os.kill(os.getpid(), signal.SIGTERM)

    return act


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM as the command line gets it."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _interrupted_at(number: int, ended: list[bool]) -> Iterator[None]:
    """Ctrl-C when the nth function of twice is entered: only of this thread, and only once."""
    left = number

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                ended.append(True)
                raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def _check_message(game: Game, step: Run, before: Counter[Row], results: Sequence[RunResult]) -> None:
    """What others changed is reported as such; what is restated is IDENTICAL only if no row changed."""
    day, warehouses = DAYS[step.day], game.warehouses
    concerned = (step.side, step.task, None if step.task in INCREMENTAL else day)
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


def _compare(game: Game, when: str) -> None:
    """What the tables hold is allowed; whatever it rules out is forgotten."""
    for side in (0, 1):
        possible = game.possible[side]
        names = list(possible[0].tables)
        held = {name: game.warehouses.rows(side, f"shop.{name}") for name in names}
        context = game.warehouses.context(side)
        marks = {name: show_mark(context, context.project.task(name)).at for name in INCREMENTAL}
        fitting = [model for model in possible if model.tables == held and _marks(model) == marks]
        if not fitting:
            raise AssertionError(_difference(possible[-1], held, marks, f"side {side} {when}"))
        game.possible[side] = _distinct(fitting)


def _marks(model: Model) -> dict[str, str | None]:
    return {name: mark_text(model.marks[name]) if name in model.marks else None for name in INCREMENTAL}


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


def _check_effects(game: Game, side: int) -> None:
    """Of every published slice once: not never, unless a person must say so, and not twice."""
    context, sent = game.warehouses.context(side), Counter(game.warehouses.sent[side])
    assert all(count == 1 for count in sent.values()), f"sent twice: {sent}"
    for task, day in game.possible[side][0].published:
        if task not in WITH_EFFECTS:
            continue
        known = context.ledger.outbox.last_counted(task, day.isoformat(), "announce")
        assert known is not None, f"no effect was to be sent for {task} {day}"
        in_doubt = known.state is EffectState.IN_DOUBT
        assert sent[task, day.isoformat()] == 1 or in_doubt, f"side {side}: {task} {day}: {known.state}"
