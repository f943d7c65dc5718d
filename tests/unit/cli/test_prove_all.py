"""`prove --all`: which slice of each task is proved for a date, and how the command ends."""

from __future__ import annotations

import json
from dataclasses import replace as changed
from datetime import datetime, timezone

import pytest

from twice import Daily, Hourly, Whole, read, replace, task
from twice.cli.options import Format
from twice.cli.prove import Ends, dates_of_all, print_ends, print_proof
from twice.core.project.project import Project, assemble
from twice.core.results.proof import Proof, Trial, TrialResult
from twice.core.scope import Scope
from twice.errors import BeforeStart

LATER = "2026-06-09 is before the task's start, 2026-07-01"
HELD = Proof(
    "daily",
    "2026-06-09",
    "c0de",
    datetime(2026, 6, 10, tzinfo=timezone.utc),
    (Trial("twice", TrialResult.SAME, "run again"),),
    1.0,
)


def project(*names: str) -> Project:
    scopes: dict[str, Scope] = {
        "daily": Daily("d", start="2026-01-01"),
        "hourly": Hourly("at", start="2026-01-01T00"),
        "whole": Whole(),
        "later": Daily("d", start="2026-07-01"),
    }
    made = [
        task(f"shop.{name}", name=name, scope=scopes[name], write=replace(), inputs={"rows": read("shop.rows")})(
            lambda rows: rows
        )
        for name in names
    ]
    return assemble("p", made)


def test_one_date_serves_every_scope_and_a_task_that_begins_later_is_left_out_with_the_reason() -> None:
    dates, left_out = dates_of_all(project("daily", "hourly", "whole", "later"), "2026-06-09")
    assert dates == {"daily": "2026-06-09", "hourly": "2026-06-09T00", "whole": None}
    assert left_out == {"later": LATER}


def test_where_all_begin_later_there_is_nothing_to_prove() -> None:
    with pytest.raises(BeforeStart):
        dates_of_all(project("later"), "2026-06-09")


def test_a_plan_that_twice_run_refuses_is_not_proved_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    refused = changed(HELD, refused=("drop_duplicates reaches v: of rows with the same key it keeps any one.",))
    assert print_ends(Ends((HELD, refused)), None, Format.text) == 1
    assert capsys.readouterr().out == "next: fix the errors above, then prove it again\n"
    print_proof(refused)
    assert "twice run refuses this plan: drop_duplicates reaches v" in capsys.readouterr().out


def test_what_is_left_out_is_named_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    ends = Ends((HELD,), left_out={"later": LATER})
    assert print_ends(ends, None, Format.text) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"later: left out, because {LATER}",
        "proved: 1 of 1, 1 left out; next: twice status",
    ]
    assert print_ends(ends, None, Format.json) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == {"later": LATER}
