"""What the commands about the ledger say."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twice.cli.main import app
from twice.core.ledger.record import Unassigned

OLD = Unassigned("revenue", attempts=2, slices=1, effects=1, unsent=1)
LISTED = "revenue: 2 attempts, 1 slice, 1 effect, 1 unsent"


@pytest.mark.parametrize(
    ("found", "unasked", "lines"),
    [
        ((), (), ["no record is unassigned: each belongs to an environment"]),
        (
            (OLD,),
            ("revenue",),
            [
                LISTED,
                "the tables of revenue were not asked yet which of these records are theirs",
                "next: twice ledger check --project ROOT (it asks them; no effect is sent)",
            ],
        ),
        (
            (OLD,),
            (),
            [
                LISTED,
                "the tables were asked, and none shows that these records are its own; none of their effects is sent",
                "next: twice ledger unassigned --project ROOT --take TASK, if this environment wrote all records of "
                "the task",
            ],
        ),
    ],
)
def test_unassigned_records_are_listed_with_what_to_do_next(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[Unassigned, ...],
    unasked: tuple[str, ...],
    lines: list[str],
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text('project = "p"\n')
    monkeypatch.setattr("twice.project.ledger.unassigned", lambda _: found)
    monkeypatch.setattr("twice.project.ledger.tables_to_ask", lambda _: unasked)
    answer = CliRunner().invoke(app, ["ledger", "unassigned", "--project", str(tmp_path)])
    assert answer.stdout.replace(str(tmp_path), "ROOT").splitlines() == lines
