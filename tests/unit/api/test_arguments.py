"""Which slices a range means, what is refused at once, and the names that arguments once had."""

from __future__ import annotations

import inspect
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import twice
from twice.core.backfill.plan import BackfillPlan
from twice.core.results.run import Outcome, RunResult, SliceResult
from twice.errors import UsageError
from twice.runtime.backfill.backfill import asked_for

FIRST, MIDDLE, LAST = "2026-06-01", "2026-06-02", "2026-06-03"
UTC = timezone.utc
VERBS = ["run", "restate", "retry", "plan", "status", "history", "backfill", "recover", "prove", "prove_job", "session"]


@pytest.fixture
def slices_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The slices that runs and backfills were asked for, and nothing of them is done."""
    asked: list[str] = []

    def run(_: Any, task: str, slices: Any, *__: Any) -> tuple[RunResult, ...]:
        asked.extend(each.label for each in slices)
        return tuple(RunResult(task, Outcome.PUBLISHED, (SliceResult(each.label, 1),), "a", "") for each in slices)

    def plan(opened: Any, request: Any, _: Any) -> BackfillPlan:
        asked.extend(each.label for each in asked_for(opened.project.task(request.task), request))
        return BackfillPlan("mine", request, ())

    monkeypatch.setattr("twice.project.run.run", run)
    monkeypatch.setattr("twice.project.backfill.plan", plan)
    return asked


@pytest.mark.parametrize(
    "interval",
    [
        (FIRST, LAST),
        (date(2026, 6, 1), date(2026, 6, 3)),
        (datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 3, tzinfo=UTC)),
    ],
)
def test_the_end_of_an_interval_is_not_included(root: Path, slices_run: list[str], interval: Any) -> None:
    result = twice.run("revenue", interval=interval, project=root)
    assert slices_run == [FIRST, MIDDLE]
    assert repr(result) == f"<RunResult revenue[{FIRST}..{MIDDLE}]: 2 runs, 2 published; the last: published>"


@pytest.mark.parametrize("ends", [(FIRST, LAST), (date(2026, 6, 1), date(2026, 6, 3))])
def test_the_last_slice_of_a_backfill_is_included(root: Path, slices_run: list[str], ends: Any) -> None:
    result = twice.backfill("revenue", *ends, dry_run=True, project=root)
    assert slices_run == [FIRST, MIDDLE, LAST]
    assert repr(result) == (
        f"<BackfillResult mine: revenue[{FIRST}..{LAST}], both included: plan only, not started, 0 slices to do>"
    )


@pytest.mark.parametrize("verb", [twice.run, twice.backfill])
def test_a_range_is_documented_with_its_slices_and_the_options_of_the_command_line(verb: Any) -> None:
    doc = inspect.getdoc(verb) or ""
    assert FIRST in doc and MIDDLE in doc and LAST in doc
    assert ("NOT included" in doc and "--end" in doc) if verb is twice.run else ("INCLUDED" in doc and "--to" in doc)


def test_the_old_names_of_a_backfills_arguments_still_work_and_say_the_new_ones(
    root: Path, slices_run: list[str]
) -> None:
    backfill: Any = twice.backfill
    with pytest.warns(DeprecationWarning) as warned:
        found = backfill("revenue", start=FIRST, end=MIDDLE, downstream=True, dry_run=True, project=root)
    assert sorted(str(each.message) for each in warned) == [
        "twice.backfill: downstream= is now with_downstream=",
        "twice.backfill: end= is now last=",
        "twice.backfill: start= is now first=",
    ]
    assert {each.filename for each in warned} == {__file__}
    assert (slices_run, found.request.downstream) == ([FIRST, MIDDLE], True)
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="start= and first=, which are one argument"):
        backfill("revenue", first=FIRST, start=FIRST, last=MIDDLE, dry_run=True, project=root)


def test_a_session_by_its_place_still_works_and_says_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twice.wiring.open_project.session", lambda *given: given)
    session: Any = twice.session
    with pytest.warns(DeprecationWarning, match="twice.session: 'shop' is now project='shop'"):
        assert session("shop", profile="prod") == (Path("shop"), "prod")
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="two values for project="):
        session("shop", project="shop")
    with pytest.raises(TypeError, match="at most 2"):
        session("shop", "prod", "more")


@pytest.mark.parametrize("name", VERBS)
def test_project_and_profile_are_keywords_with_one_default_everywhere(name: str) -> None:
    parameters = inspect.signature(getattr(twice, name)).parameters
    if name == "prove_job":
        assert not {"project", "profile"} & parameters.keys()  # it needs no project
        return
    assert (parameters["project"].default, parameters["profile"].default) == (".", None)
    assert {parameters[each].kind for each in ("project", "profile")} == {inspect.Parameter.KEYWORD_ONLY}
    assert not parameters.keys() & {"start", "end", "downstream"}


NONSENSE: list[tuple[Any, str]] = [
    (lambda v, root: v.status(limit=0, project=root), "limit=0 must be at least 1. Give a number from 1 on."),
    (lambda v, root: v.history("revenue", limit=-1, project=root), "limit=-1 must be at least 1"),
    (
        lambda v, root: v.backfill("revenue", FIRST, LAST, parallel=0, project=root),
        "parallel=0 must be at least 1. Give a number from 1 to 64.",
    ),
    (
        lambda v, root: v.backfill("revenue", FIRST, LAST, only="stale", project=root),
        'only="stale" must be a list, not a string. Write only=["stale"].',
    ),
    (
        lambda v, root: v.backfill("revenue", FIRST, LAST, effects="sent", project=root),
        'effects=\'sent\' is not known. Give "silent" or "send".',
    ),
    (lambda v, root: v.run_all(date=FIRST, select="revenue+", project=root), 'Write select=["revenue+"].'),
    (lambda v, root: v.run_all(date=FIRST, parallel=0, project=root), "parallel=0 must be at least 1"),
    (lambda v, root: v.run_all(date=FIRST, select=["revenu+"], project=root), "Did you mean revenue?"),
    (lambda v, root: v.prove("revenue", date=FIRST, scenarios="twice", project=root), 'Write scenarios=["twice"].'),
    (lambda v, _: v.prove_job(print, tables="shop.orders"), 'Write tables=["shop.orders"].'),
    (lambda v, root: v.run("revenue", date=FIRST, wait=-1, project=root), "wait=-1 is negative"),
    (lambda v, root: v.retry("revenue", wait=timedelta(seconds=-1), project=root), "is negative"),
]


@pytest.mark.parametrize(("call", "message"), NONSENSE)
def test_nonsense_is_refused_at_once(root: Path, call: Any, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        call(twice, root)
    assert message in str(refused.value)
