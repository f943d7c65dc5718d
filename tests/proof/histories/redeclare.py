"""Tasks that are declared otherwise in the middle of a history: by another scope, under another name."""

from __future__ import annotations

from dataclasses import replace

from twice.errors import UsageError
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.takeover import take_over

from .game import Game
from .steps import Recut, Rename, TakeOver


def recut(game: Game, step: Recut) -> None:
    months = game.declared(step.side).monthly
    monthly = months | {step.task} if step.monthly else months - {step.task}
    game.declare(step.side, replace(game.declared(step.side), monthly=monthly))


def rename(game: Game, step: Rename | TakeOver) -> None:
    names = game.declared(step.side).renamed
    renamed = names | {step.task} if step.renamed else names - {step.task}
    game.declare(step.side, replace(game.declared(step.side), renamed=renamed))


def let_take_over(game: Game, step: TakeOver) -> None:
    """It says from whom it took the table; there may be none, or no table yet."""
    models, task = game.possible[step.side], game.task(step.side, step.task)
    try:
        taken = take_over(game.warehouses.context(step.side), task, HumanDecision("ana", "it is ours now"))
    except UsageError:
        taken = {}
    fitting = [model for model in models if (model.owners.get(step.task, task.name) != task.name) is bool(taken)]
    assert fitting, f"{step}: taken over from {dict(taken)}"
    for model in fitting:
        model.take_over(step.task)
    game.possible[step.side] = fitting
    if taken:  # it is a commit of ours: what came before is history
        concerned = {each for each in game.foreign if each[0] == step.side and each[1].removesuffix("_2") == step.task}
        game.foreign -= concerned
