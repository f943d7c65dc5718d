"""Tables of one name in two table systems are two tables."""

from __future__ import annotations

from typing import Any

import pytest

from twice import Whole, read, replace, task
from twice.core.project.project import assemble
from twice.core.task import Task
from twice.errors import DeclarationError


def copy(name: str, target: str, source: str) -> Task:
    @task(target, name=name, scope=Whole(), inputs={"rows": read(source)}, write=replace())
    def declared(rows: Any) -> Any:
        return rows

    return declared


def test_a_table_copied_to_another_system_under_its_own_name_is_no_cycle() -> None:
    project = assemble("p", [copy("orders", "shop.orders", "postgres:shop.orders")])
    assert project.upstream(project.task("orders")) == ()


def test_a_table_named_with_the_default_system_is_the_one_named_without() -> None:
    project = assemble("p", [copy("a", "shop.a", "shop.x"), copy("b", "shop.b", "delta:shop.a")])
    assert [up.name for up in project.upstream(project.task("b"))] == ["a"]
    with pytest.raises(DeclarationError, match="a and b both write delta:shop.A"):
        assemble("p", [copy("a", "shop.a", "shop.x"), copy("b", "delta:shop.A", "shop.x")])


def test_two_systems_may_hold_a_table_of_one_name() -> None:
    both = [copy("a", "shop.a", "shop.x"), copy("b", "postgres:shop.a", "shop.a")]
    project = assemble("p", both)
    assert [up.name for up in project.upstream(project.task("b"))] == ["a"]
    assert [each.name for each in project.in_order()] == ["a", "b"]
