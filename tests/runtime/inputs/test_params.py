"""Declared values, on whole runs: read when the task runs, part of what a slice was made of, never written down."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import DAY, RuntimeSetup

from twice import Daily, Input, Outcome, Param, param, read, task
from twice import replace as replace_rows
from twice.core.ports import PARAM, Column
from twice.core.task import Task
from twice.errors import DeclarationError, InputMissing
from twice.runtime.staleness.slice_status import slice_statuses
from twice.targets.memory.rows import Rows

DAILY = Daily("order_date", start="2026-01-01")


def weighed(runtime: RuntimeSetup, given: Param, seen: list[Any] | None = None) -> Task:
    def function(orders: Any, rate: Any) -> Rows:
        if seen is not None:
            seen.append(rate)
        return Rows((Column("order_date", "date"), Column("revenue", "bigint")), ((DAY, len(orders.rows)),))

    inputs: dict[str, Input] = {"orders": read("shop.orders", by="order_date"), "rate": given}
    return runtime.declare(
        task("shop.revenue", scope=DAILY, inputs=inputs, write=replace_rows(), name="revenue")(function)
    )


def status(runtime: RuntimeSetup, declared: Task) -> tuple[str, str]:
    (found,) = slice_statuses(runtime.context, declared, (DAILY.slice_of("2026-06-09"),), None)
    return found.status, found.why


def ledger_text(runtime: RuntimeSetup) -> str:
    return (runtime.context.root / "ledger.db").read_bytes().decode("latin-1")


@pytest.mark.parametrize("kind", ["json", "yaml", "env", "value"])
def test_a_changed_value_makes_slices_stale_and_the_reason_names_it(runtime: RuntimeSetup, kind: str) -> None:
    seen: list[Any] = []

    def declared(rate: float) -> tuple[Task, str]:
        if kind == "json":
            (runtime.context.root / "fx.json").write_text(json.dumps({"rates": {"eu": rate}, "other": rate + 1}))
            return weighed(runtime, param.json("fx.json", key="rates.eu"), seen), "rate (fx.json, rates.eu)"
        if kind == "yaml":
            (runtime.context.root / "fx.yaml").write_text(f"rate: {rate}\n")
            return weighed(runtime, param.yaml("fx.yaml", key="rate"), seen), "rate (fx.yaml, rate)"
        if kind == "env":
            runtime.context = replace(runtime.context, environment={"RATE": str(rate)})
            return weighed(runtime, param.env("RATE"), seen), "rate (environment RATE)"
        return weighed(runtime, param(rate), seen), "rate (in its declaration)"

    first, name = declared(1.5)
    assert [runtime.run(first).outcome, runtime.run(first).outcome] == [Outcome.PUBLISHED, Outcome.ALREADY]
    assert status(runtime, first) == ("published", "same code, same inputs")
    second, _ = declared(2.5)
    assert status(runtime, second) == ("stale", f"its param {name} changed")
    assert runtime.run(second).why == f"its param {name} changed"
    assert list(map(float, seen[-1:])) == [2.5]


def test_what_else_is_in_the_file_does_not_count(runtime: RuntimeSetup) -> None:
    file = runtime.context.root / "fx.json"
    declared = weighed(runtime, param.json("fx.json", key="rates.eu"))
    file.write_text('{"rates": {"eu": 2}}')
    runtime.run(declared)
    file.write_text('{"rates":  {"us": 9,  "eu": 2}}')
    assert runtime.run(declared).outcome is Outcome.ALREADY


def test_a_secret_is_neither_recorded_nor_compared(runtime: RuntimeSetup) -> None:
    runtime.context = replace(runtime.context, environment={"TOKEN": "hunter2-one"})
    seen: list[Any] = []
    declared = weighed(runtime, param.env("TOKEN", secret=True), seen)
    runtime.run(declared)
    runtime.context = replace(runtime.context, environment={"TOKEN": "hunter2-two"})
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert seen == ["hunter2-one", "hunter2-two"]
    (first, *_) = [r for a in runtime.ledger.attempts("revenue") for r in a.inputs if r.kind == PARAM]
    assert (first.name, first.identity) == ("rate (environment TOKEN), a secret", "secret")
    assert "hunter2" not in ledger_text(runtime)


def test_a_value_is_not_in_the_ledger(runtime: RuntimeSetup) -> None:
    runtime.run(weighed(runtime, param("carefully chosen")))
    assert "carefully" not in ledger_text(runtime)


def test_a_call_may_change_the_value_it_was_given(runtime: RuntimeSetup) -> None:
    def greedy(orders: Any, rate: dict[str, int]) -> Rows:
        rate.clear()
        return Rows((Column("order_date", "date"), Column("revenue", "bigint")), ())

    given = {"eu": 1}
    declared = replace(weighed(runtime, param(given)), function=greedy)
    runtime.run(declared)
    assert given == {"eu": 1}
    assert runtime.run(declared).outcome is Outcome.ALREADY


@pytest.mark.parametrize(
    ("given", "text", "said"),
    [
        (param.env("RATE"), None, "the environment has no variable RATE"),
        (param.json("fx.json"), None, "the param rate cannot be read from fx.json: No such file or directory"),
        (param.json("fx.json"), '{"eu": 1', "the param rate: fx.json is no JSON (line 1)"),
        (param.yaml("fx.json"), "a: [", "the param rate: fx.json is no YAML"),
        (param.json("fx.json", key="eu"), "{}", "the param rate: fx.json has no key eu"),
    ],
)
def test_a_value_that_is_not_there_is_an_error(
    runtime: RuntimeSetup, given: Param, text: str | None, said: str
) -> None:
    runtime.context = replace(runtime.context, environment={})
    if text is not None:
        (runtime.context.root / "fx.json").write_text(text)
    with pytest.raises(InputMissing) as missing:
        runtime.run(weighed(runtime, given))
    assert said in str(missing.value)
    assert "The table is unchanged." in str(missing.value)


def test_a_default_holds_where_the_variable_is_not_set(runtime: RuntimeSetup) -> None:
    runtime.context = replace(runtime.context, environment={})
    seen: list[Any] = []
    runtime.run(weighed(runtime, param.env("RATE", default="eu"), seen))
    assert seen == ["eu"]


def test_a_file_elsewhere_needs_roots(runtime: RuntimeSetup, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("elsewhere") / "fx.json"
    file.write_text("1")
    declared = weighed(runtime, param.json(str(file)))
    with pytest.raises(DeclarationError, match="the param rate reads .* outside of the project"):
        runtime.run(declared)
    runtime.context = replace(runtime.context, roots=(Path(file.parent),))
    assert runtime.run(declared).outcome is Outcome.PUBLISHED


def test_a_function_stays_a_plain_one(runtime: RuntimeSetup) -> None:
    declared = weighed(runtime, param(3))
    assert declared(orders=Rows(()), rate=4).rows == ((DAY, 0),)
