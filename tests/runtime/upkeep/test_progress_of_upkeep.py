"""What a person sees while a command that runs no task works: each step by its name. While a table is asked, the line
never says that Spark is starting: it has started by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.conftest import ORDERS, RuntimeSetup, revenue_task

from twice import Daily, Since, append_once, call, read, task
from twice.core.failure.failpoints import Crash, Point, armed, crash_at
from twice.core.project.project import assemble
from twice.core.since import SINCE
from twice.core.slice import Slice
from twice.core.task import Task
from twice.project import effects, ledger, upkeep
from twice.runtime.effects.send import delivery_of
from twice.runtime.run.run_task import run_task
from twice.senders.call import CallSender

STARTING = "starting"


@dataclass
class Recording:
    """The steps, each once in a row."""

    steps: list[str] = field(default_factory=list)

    def begins(self, step: str, where: str = "", detail: str = "") -> None:
        if self.steps[-1:] != [step]:
            self.steps.append(step)

    def learns(self, fact: str) -> None: ...

    def counts(self, at: int, total: int, noun: str) -> None: ...

    def ends(self) -> None: ...


@dataclass
class Asked:
    """A target that remembers during which step it was asked."""

    target: Any
    recording: Recording
    during: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        self.during.add(self.recording.steps[-1])
        return getattr(self.target, name)


def _revenue(runtime: RuntimeSetup) -> Task:
    """Its process died after the commit; its effect waits, and its lease has run out."""
    runtime.context = replace(runtime.context, senders={"call": CallSender()}, holder="elsewhere:1:1")
    announce = call(lambda result, key: None, keyed=False, name="announce")
    declared = runtime.declare(replace(revenue_task(), effects=(announce,)))
    with pytest.raises(Crash), armed(crash_at(Point.AFTER_COMMIT)):
        runtime.run(declared)
    runtime.clock.ahead += timedelta(hours=1)
    return declared


def _renamed(runtime: RuntimeSetup) -> None:
    runtime.run(runtime.declare(revenue_task()))
    runtime.declare(replace(revenue_task(), name="sales"))


def _log(runtime: RuntimeSetup) -> None:
    """What it keeps is never computed again."""
    scope = Daily("order_date", start="2026-01-01")
    inputs = {"revenue": read("shop.revenue", by="order_date")}
    declare = task("shop.log", scope=scope, inputs=inputs, write=append_once(), name="log")
    tasks = [revenue_task(), declare(lambda revenue: revenue)]
    runtime.context = replace(runtime.context, project=assemble("p", tasks))
    first: Slice = scope.slice_of("2026-06-09")
    for name in ("revenue", "log"):
        run_task(runtime.context, runtime.context.project.task(name), (first,))


def _copy(runtime: RuntimeSetup) -> None:
    inputs = {"orders": read(str(ORDERS), by="order_id")}
    declare = task("shop.copy", scope=Since("order_id", initial=0), inputs=inputs, write=append_once(), name="copy")
    run_task(runtime.context, runtime.declare(declare(lambda orders: orders)), (SINCE,))


COMMANDS: dict[str, tuple[Callable[[RuntimeSetup], object], Callable[[Any], object], list[str]]] = {
    "ledger check": (
        _revenue,
        ledger.check,
        ["reading the table's tokens", "reading whose the table is", "comparing the records with the tables"],
    ),
    "ledger rebuild": (_revenue, ledger.rebuild_ledger, ["reading the table's tokens", "recording what it holds"]),
    "ledger prune": (
        _revenue,
        lambda opened: ledger.prune(opened, timedelta(days=2)),
        ["looking for what dead attempts staged", "deleting what dead attempts staged", "deleting old records"],
    ),
    "recover": (
        _revenue,
        upkeep.recover,
        [
            "looking for attempts that stopped reporting",
            "looking for what dead attempts staged",
            "deleting what dead attempts staged",
            "closing attempts that stopped reporting",
            "looking for effects to send",
            "writing the text",
            "sending effects",
        ],
    ),
    "gc": (
        _revenue,
        upkeep.gc,
        ["deleting scratch files", "looking for what dead attempts staged", "deleting what dead attempts staged"],
    ),
    "effects send": (
        lambda runtime: (_revenue(runtime), upkeep.gc(_opened(runtime))),
        lambda opened: effects.send(opened, None, timedelta(0)),
        ["writing the text", "sending effects"],
    ),
    "accept": (
        _log,
        lambda opened: upkeep.accept(opened, "log", None, "ana", "it is right"),
        ["looking what landed above it", "comparing what it read with what is there now"],
    ),
    "takeover": (
        _renamed,
        lambda opened: upkeep.take_over(opened, "sales", "ana", "the team changed"),
        ["reading whose the table is", "taking the table over"],
    ),
    "mark show": (_copy, lambda opened: upkeep.mark(opened, "copy"), ["reading the mark"]),
    "mark reset": (
        _copy,
        lambda opened: upkeep.reset_mark(opened, "copy", "1", "ana", "order 2 was corrected"),
        ["moving the mark"],
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_step_is_named_and_none_hides_behind_the_start_of_spark(command: str, runtime: RuntimeSetup) -> None:
    before, act, steps = COMMANDS[command]
    before(runtime)
    recording = Recording([STARTING])
    target = Asked(runtime.target, recording)
    watched = replace(runtime.context, progress=recording, target_of=lambda table, session: target)
    act(_opened(replace(runtime, context=watched)))
    assert recording.steps == [STARTING, *steps]
    assert STARTING not in target.during


def _opened(runtime: RuntimeSetup) -> Any:
    """What these verbs use of an opened project, without its Spark."""
    context = runtime.context
    settings = SimpleNamespace(root=context.root, project="p", spark=SimpleNamespace(warm=None))
    delivery = delivery_of(context)
    return SimpleNamespace(
        context=context,
        ledger=context.ledger,
        project=context.project,
        progress=context.progress,
        settings=settings,
        delivery=delivery,
    )
