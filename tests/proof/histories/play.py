"""A history, played on a real target and on the model side by side, compared after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from typing import Any

from twice.core.failure.failpoints import Crash
from twice.core.results.run import RunRequest, RunResult
from twice.core.scope import slice_named
from twice.core.since import Since, mark_text
from twice.errors import AuditFailed, TableTaken
from twice.runtime.effects.send import send_pending
from twice.runtime.run.run_many import run_slices
from twice.runtime.upkeep.mark import Reset, reset_mark
from twice.runtime.upkeep.recover import recover

from .compare import check_effects, check_message, compare
from .deaths import dying
from .game import Game, Warehouses
from .project import evolving
from .redeclare import let_take_over, recut, rename
from .reshape import adopt, rebuild
from .steps import (
    DAYS,
    INCREMENTAL,
    START,
    Adopt,
    Arrive,
    AtCall,
    AtPoint,
    Delete,
    FailEvolving,
    How,
    MoveInitial,
    Rebuild,
    Recut,
    Rename,
    ResetMark,
    Run,
    Step,
    TakeOver,
    Withdraw,
    days_of,
    row_of,
)


class End(Enum):
    ENDED = "it came to its end"
    DIED = "it died on the way"
    REFUSED = "the table is another task's, or cut differently"


def play(warehouses: Warehouses, history: Sequence[Step]) -> None:
    """Every step on both, compared after each; at the end whatever was run is run again."""
    game = Game(warehouses)
    for step in history:
        _take(game, step)
        compare(game, f"after {step}")
    for side, name, day in sorted({(step.side, step.task, step.day) for step in history if isinstance(step, Run)}):
        _take(game, Run(side, name, day))
        compare(game, f"after {name} {day} was run again")
    for side, name in sorted({(step.side, step.task) for step in history if isinstance(step, Rebuild)}):
        _take(game, Rebuild(side, name))
        compare(game, f"after {name} was rebuilt again")
    for side in (0, 1):
        context = warehouses.context(side)
        recover(context, context.engine.fresh())
        send_pending(context)
        assert not context.ledger.open_attempts(), "attempts stay open"
        check_effects(game, side)


def _take(game: Game, step: Step) -> None:
    match step:
        case Arrive():
            _arrive(game, step)
        case Delete():
            _delete(game, step)
        case Rebuild():
            rebuild(game, step)
        case Adopt():
            adopt(game, step)
        case Withdraw():
            _withdraw(game, step)
        case ResetMark():
            _reset(game, step)
        case MoveInitial():
            for side in (0, 1):
                initial = START + timedelta(minutes=step.minutes)
                game.declare(side, replace(game.declared(side), initial=initial))
        case FailEvolving():
            _fail_evolving(game, step)
        case Recut():
            recut(game, step)
        case Rename():
            rename(game, step)
        case TakeOver():
            rename(game, step)
            let_take_over(game, step)
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
    task = game.task(step.side, step.task)
    if all(task.name not in model.marks for model in models) or to < game.declared(step.side).initial:
        return  # nothing is published, and there is no mark to reset; or it is no mark of this task
    context = game.warehouses.context(step.side)
    try:
        before, _ = reset_mark(context, task, Reset(mark_text(to), "ana", "to read it again"))
    except TableTaken:
        game.refused(step.side, step.task, step)
        return
    for model in models:
        model.reset(step.task, to)
    if before.at != mark_text(to):
        game.foreign.discard((step.side, task.name, None))  # it is a commit of ours: what came before is history


def _delete(game: Game, step: Delete) -> None:
    models = game.possible[step.side]
    gone = {row[1] for row in models[0].tables[step.task] if row[0] == step.id}
    if not gone:
        return
    game.warehouses.delete(step.side, f"shop.{step.task}", step.id)
    for model in models:
        model.delete(step)
    if step.task in INCREMENTAL:
        game.foreign |= {(step.side, name, None) for name in models[0].marks if name.removesuffix("_2") == step.task}
        return
    known = {slice_ for slice_ in models[0].published if slice_[0].removesuffix("_2") == step.task}
    concerned = {slice_ for slice_ in known if step.task != "daily" or days_of(slice_[1]) & gone}
    game.foreign |= {(step.side, *slice_) for slice_ in concerned}


def _fail_evolving(game: Game, step: FailEvolving) -> None:
    """Neither a row nor a column of it may be seen."""
    if not any(row[1] == DAYS[step.day] for row in game.possible[step.side][0].source):
        return
    task, context = evolving(game.task(step.side, "daily")), game.warehouses.context(step.side)
    before = game.warehouses.columns(step.side, "shop.daily")
    try:
        run_slices(context, task, (_slice(game, step, "daily"),), RunRequest("restate"))
    except AuditFailed:
        pass
    except TableTaken:
        game.refused(step.side, "daily", step)
    else:
        raise AssertionError("the audit did not fail")
    assert game.warehouses.columns(step.side, "shop.daily") == before


def _run(game: Game, step: Run) -> None:
    warehouses = game.warehouses
    before = warehouses.rows(step.side, f"shop.{step.task}") if step.restate else Counter()
    results, end = _attempt(game, step)
    if end is End.REFUSED:
        game.refused(step.side, step.task, step)
        return
    died = end is End.DIED
    if died and (isinstance(step.death, AtCall) or (isinstance(step.death, AtPoint) and step.death.how is How.KILL)):
        warehouses.pass_time()
    models = []
    for model in game.possible[step.side]:
        if not model.refuses(step.task):
            models += model.after(step if died else _whole(step))
        elif died:
            models.append(model)
    assert models, f"{step} was not refused"
    game.possible[step.side] = models
    check_message(game, step, before, results)


def _whole(step: Run) -> Run:
    return Run(step.side, step.task, step.day, None, step.restate)


def _attempt(game: Game, step: Run) -> tuple[Sequence[RunResult], End]:
    """What it says, and how it ended; a run that was to die may end before it comes to that place."""
    context, declared = game.warehouses.context(step.side), game.task(step.side, step.task)
    kind: Any = "restate" if step.restate else "run"
    ended: list[bool] = []
    try:
        with dying(step.death, ended):
            results = run_slices(context, declared, (_slice(game, step, step.task),), RunRequest(kind))
            return results, End.DIED if ended else End.ENDED
    except (Crash, KeyboardInterrupt, Exception) as error:
        if not ended and isinstance(error, TableTaken):
            return (), End.REFUSED
        if not ended:
            raise
        return (), End.DIED


def _slice(game: Game, step: Run | FailEvolving, table: str) -> Any:
    scope = game.task(step.side, table).scope
    label = None if isinstance(scope, Since) else game.declared(step.side).label_of(table, step.day)
    return slice_named(scope, label)
