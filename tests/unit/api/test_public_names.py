"""What a user may import, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from inspect import isclass, isfunction, ismodule
from types import SimpleNamespace
from typing import Any

import pytest

import twice


def test_the_public_names_are_exactly_these() -> None:
    assert twice.__all__ == [
        *("Audit", "BackfillResult", "Daily", "DeclaredTask", "Effect", "EffectRefused", "Every", "Explanation"),
        *("History", "Hourly", "Inbox", "Item", "ItemStatus", "Monthly", "Outcome", "Policy", "Proof"),
        *("PublishedSlice", "Read", "Recovered", "Retry", "RunResult", "Since", "Status", "Strategy", "Task"),
        *("TwiceError", "Whole", "WorkQueue", "Worked", "append_once", "assert_identical", "audit"),
        *("backfill", "call", "days", "email", "history", "hours", "insert_new", "merge", "plan", "prove"),
        *("prove_job", "read", "recover", "replace", "restate", "retry", "run", "session", "slack", "sql_task"),
        *("stable_row_hash", "status", "surrogate_key", "task", "webhook"),
    ]
    assert all(hasattr(twice, name) for name in twice.__all__)
    assert set(twice.__all__) <= set(dir(twice))


@pytest.mark.parametrize("name", twice.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert (getattr(twice, name).__doc__ or "").strip()


@pytest.mark.parametrize("name", twice.__all__)
def test_every_class_in_a_public_signature_is_public(name: str) -> None:
    """Aliases are unions of public classes and literals. A strategy is seen as `Strategy`, whatever its class."""
    private = {
        f"{found.__module__}.{found.__name__}"
        for function in signatures(getattr(twice, name))
        for found in classes_of(function)
        if found.__module__.startswith("twice.")
        and not found.__module__.startswith("twice.strategies.")
        and getattr(twice, found.__name__, None) is not found
    }
    assert not private


def test_importing_twice_loads_neither_spark_nor_a_database_library() -> None:
    code = "import sys, twice; print([name for name in ('pyspark', 'sqlalchemy', 'sqlglot') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_old_name_of_a_published_slice_still_works_and_says_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"twice\.Result is now twice\.PublishedSlice"):
        assert twice.Result is twice.PublishedSlice


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'twice' has no attribute 'nothing'"):
        twice.nothing  # noqa: B018


def signatures(public: Any) -> Iterator[Callable[..., Any]]:
    """The functions a user calls: the name itself, those of `audit`, the methods of classes that do something. What a
    result has in its fields is reached through it, and needs no name."""
    if isfunction(public):
        yield public
    elif ismodule(public):
        yield from (each for each in vars(public).values() if isfunction(each) and declares_audit(each))
    elif isclass(public) and public in (twice.WorkQueue, twice.Inbox, twice.DeclaredTask):
        yield from (each for name, each in vars(public).items() if isfunction(each) and not name.startswith("_"))


def declares_audit(function: Callable[..., Any]) -> bool:
    return function.__annotations__.get("return") == "Audit"


def classes_of(function: Callable[..., Any]) -> Iterator[type]:
    spark = dict.fromkeys(("Column", "DataFrame", "SparkSession"), SimpleNamespace)
    for hint in typing.get_type_hints(function, localns=spark).values():
        yield from classes_in(hint)


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, list | tuple):
        for each in hint:
            yield from classes_in(each)
    elif typing.get_origin(hint) is typing.Literal:
        return
    elif typing.get_args(hint):
        yield from classes_in(typing.get_args(hint))
    elif isclass(hint):
        yield hint
