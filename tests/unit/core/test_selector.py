"""Selectors: which tasks a person means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twice import Whole, read, replace, task
from twice.core.project.project import Project, assemble
from twice.core.project.selector import choose, only_name
from twice.core.task import Task
from twice.errors import DeclarationError, UsageError


def job(name: str, *above: str, tags: tuple[str, ...] = ()) -> Task:
    def made(**inputs: Any) -> Any:
        return inputs

    inputs = {f"from_{each}": read(f"shop.{each}") for each in above}
    return task(f"shop.{name}", name=name, scope=Whole(), inputs=inputs, write=replace(), tags=tags)(made)


#   raw -> orders -> revenue -> finance_daily      refunds -> finance_daily
SHOP = assemble(
    "p",
    [
        job("orders", "raw"),
        job("revenue", "orders", tags=("finance",)),
        job("refunds", "raw", tags=("finance", "slow")),
        job("finance_daily", "revenue", "refunds"),
        job("zones"),
    ],
)


def names(*texts: str, project: Project = SHOP) -> list[str]:
    return [task.name for task in choose(project, texts)]


def test_a_name_is_that_task_alone() -> None:
    assert names("revenue") == ["revenue"]


def test_a_plus_behind_it_adds_what_reads_from_it_directly_or_not() -> None:
    assert names("orders+") == ["orders", "revenue", "finance_daily"]


def test_a_plus_before_it_adds_what_it_reads_from_directly_or_not() -> None:
    assert sorted(names("+finance_daily")) == ["finance_daily", "orders", "refunds", "revenue"]


def test_a_plus_on_both_sides_adds_both_and_nothing_beside_them() -> None:
    assert names("+revenue+") == ["orders", "revenue", "finance_daily"]


def test_a_tag_is_every_task_that_has_it_and_takes_a_plus_like_a_name() -> None:
    assert sorted(names("tag:finance")) == ["refunds", "revenue"]
    assert names("tag:slow+") == ["refunds", "finance_daily"]
    assert sorted(names("+tag:finance")) == ["orders", "refunds", "revenue"]


def test_several_selectors_are_what_any_of_them_means_each_task_once_in_the_order_of_the_graph() -> None:
    found = names("finance_daily", "zones", "orders", "orders")
    assert found == [task.name for task in SHOP.in_order() if task.name in ("finance_daily", "zones", "orders")]
    assert set(names("zones", "tag:slow")) == {"zones", "refunds"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("revenu", "there is no task 'revenu' in this project. Did you mean revenue?"),
        ("+revenu+", "there is no task 'revenu' in this project. Did you mean revenue?"),
        ("tag:finanse", "no task of this project has the tag 'finanse'. Did you mean tag:finance?"),
        ("tag:zzz", "no task of this project has the tag 'zzz'. Known tags: finance, slow."),
        ("finance", "there is no task 'finance' in this project, but a tag. Write tag:finance."),
        ("+", "'+' is not a selector"),
        ("tag:", "'tag:' is not a selector"),
        ("@revenue", "'@revenue' is not a selector"),
        ("2+revenue", "'2+revenue' is not a selector"),
        ("revenue,orders", "'revenue,orders' is not a selector"),
        ("", "'' is not a selector"),
    ],
)
def test_what_names_nothing_is_refused_with_what_was_probably_meant(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        names(text)
    assert str(refused.value).startswith(message)


def test_where_no_task_has_a_tag_it_says_how_one_is_declared() -> None:
    with pytest.raises(UsageError, match=r'declare it with @task\(…, tags=\("finance",\)\)'):
        names("tag:finance", project=assemble("p", [job("zones")]))


def test_only_a_plain_name_that_stands_alone_is_about_one_task() -> None:
    assert only_name(["revenue"]) == "revenue"
    for several in (["revenue+"], ["+revenue"], ["tag:finance"], ["revenue", "orders"], []):
        assert only_name(several) is None


@pytest.mark.parametrize(("tags", "message"), [("finance", "must be a list"), (("a b",), "not a tag"), (("a+",), "a+")])
def test_a_tag_is_a_plain_word(tags: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message.replace("+", r"\+")):
        job("zones", tags=tags)


@st.composite
def projects(draw: st.DrawFn) -> Project:
    """Up to eight tasks, each of which reads from some of those before it."""
    count = draw(st.integers(1, 8))
    tags = st.lists(st.sampled_from(["x", "y"]), unique=True)
    above = [draw(st.lists(st.integers(0, at - 1), unique=True)) if at else [] for at in range(count)]
    return assemble("p", [job(f"t{n}", *(f"t{m}" for m in above[n]), tags=tuple(draw(tags))) for n in range(count)])


@given(projects(), st.data())
def test_what_is_below_a_task_is_every_task_that_it_is_above(project: Project, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(sorted(project.tasks)))
    below = {name for name in project.tasks if one in names(f"+{name}", project=project)}
    assert set(names(f"{one}+", project=project)) == below
    assert set(names(f"+{one}+", project=project)) == below | set(names(f"+{one}", project=project))


@given(projects(), st.data())
def test_selectors_add_up_and_keep_the_order_of_the_graph(project: Project, data: st.DataObject) -> None:
    tags = {f"tag:{tag}" for each in project.tasks.values() for tag in each.tags}
    words = [w for x in sorted({*project.tasks, *tags}) for w in (x, f"+{x}", f"{x}+", f"+{x}+")]
    picked = data.draw(st.lists(st.sampled_from(words), min_size=1))
    together = names(*picked, project=project)
    assert set(together) == {name for each in picked for name in names(each, project=project)}
    assert together == [task.name for task in project.in_order() if task.name in together]
