"""Tables that are built again beside themselves, and slices that a person declares published, in the middle of a
history."""

from __future__ import annotations

from contextlib import closing
from copy import deepcopy
from dataclasses import replace

from twice.core.failure.failpoints import Crash
from twice.core.project.project import Project
from twice.core.task import Task
from twice.errors import TableTaken, UsageError
from twice.ledgers.ledger import Ledger
from twice.runtime.context import RunContext
from twice.runtime.rebuild.plan import Rebuild as Rebuilding
from twice.runtime.rebuild.plan import RebuildRequest
from twice.runtime.rebuild.rebuild import rebuild_table
from twice.runtime.upkeep.adopt import AdoptRequest
from twice.runtime.upkeep.adopt import adopt as adopt_table

from .deaths import dying
from .game import Game
from .steps import Adopt, AtCall, AtPoint, How, Rebuild


def rebuild(game: Game, step: Rebuild) -> None:
    """A rebuild that died has exchanged the table or not."""
    if not game.possible[step.side][0].source:
        return
    ended: list[bool] = []
    try:
        with dying(step.death, ended):
            _rebuild(game, step)
    except (Crash, KeyboardInterrupt, Exception) as error:
        if not ended and isinstance(error, TableTaken):
            game.refused(step.side, step.task, step)
            return
        if not ended and isinstance(error, UsageError):
            _refused(game, step)
            return
        if not ended:
            raise
    if ended and (isinstance(step.death, AtCall) or (isinstance(step.death, AtPoint) and step.death.how is How.KILL)):
        game.warehouses.pass_time()
    models = game.possible[step.side]
    rebuilt = [deepcopy(model) for model in models if not model.refuses(step.task) and model.may_be_rebuilt(step.task)]
    for model in rebuilt:
        model.rebuild(step.task)
    game.possible[step.side] = [*rebuilt, *models] if ended else rebuilt
    assert game.possible[step.side], f"{step} was not refused"
    if step.task == "daily":  # its slices are published again: what came before is history
        name = game.declared(step.side).name_of(step.task)
        game.foreign = {each for each in game.foreign if each[:2] != (step.side, name)}


def adopt(game: Game, step: Adopt) -> None:
    """The rows are what they are: nobody looks whether they are right."""
    models, declared = game.possible[step.side], game.declared(step.side)
    if not models[0].source:
        return
    label = declared.label_of(step.task, step.day)
    try:
        adopt_table(game.warehouses.context(step.side), _task(game, step), AdoptRequest("ana", "it is right", label))
    except TableTaken:
        game.refused(step.side, step.task, step)
        return
    except UsageError as error:
        assert "there is no table" in error.what, error
        assert not any(model.tables[step.task] for model in models), step
        return
    fitting = [model for model in models if not model.refuses(step.task)]
    assert fitting, f"{step} was not refused"
    for model in fitting:
        model.adopt(step.task, step.day)
    game.possible[step.side] = fitting


def _rebuild(game: Game, step: Rebuild) -> None:
    context, task = game.warehouses.context(step.side), _task(game, step)
    records = context.root / f"{step.side}-{task.first_name}.db"
    with closing(Ledger.open(f"sqlite:///{records}", context.clock)) as aside:
        found = Rebuilding(context, context, task)
        tasks = {**context.project.tasks, found.side_task.name: found.side_task}
        project = Project(context.project.id, tasks, context.project.format)
        beside: RunContext = replace(context, ledger=aside, project=project)
        request = RebuildRequest(copy=step.task != "daily")
        rebuild_table(replace(found, aside=beside), request, lambda _: None)
    records.unlink()


def _refused(game: Game, step: Rebuild) -> None:
    models = game.possible[step.side]
    game.possible[step.side] = [model for model in models if not model.may_be_rebuilt(step.task)]
    assert game.possible[step.side], f"{step} was refused"


def _task(game: Game, step: Rebuild | Adopt) -> Task:
    return game.task(step.side, step.task)
