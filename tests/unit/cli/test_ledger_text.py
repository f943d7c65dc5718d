"""What the commands about the ledger say."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twice.cli.main import app
from twice.core.ledger.found import Unassigned
from twice.core.ledger.record import Pruned
from twice.core.results.recover import RecoverResult
from twice.runtime.table.garbage import RemovedFiles
from twice.runtime.upkeep.prune import Tidied

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


AWAY = "shop.away: OSError: the server is away"


@pytest.mark.parametrize(
    ("command", "does", "result"),
    [
        ("recover", "upkeep.recover", RecoverResult(unasked=(AWAY,))),
        ("gc", "upkeep.gc", (RemovedFiles("away", 0, (), (), unasked=AWAY),)),
        ("ledger prune", "ledger.prune", Tidied(Pruned(0, 0, 0, 0, 0), 0, (AWAY,))),
    ],
)
def test_a_table_that_could_not_be_asked_is_named_with_what_to_do_and_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, does: str, result: object
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text('project = "p"\n')
    monkeypatch.setattr(f"twice.project.{does}", lambda *_: result)
    monkeypatch.setattr("twice.project.upkeep.left_copies", lambda _: ())
    answer = CliRunner().invoke(app, [*command.split(), "--project", str(tmp_path)])
    assert answer.stdout.replace(str(tmp_path), "ROOT").splitlines()[-2:] == [
        f"could not be read: {AWAY}; what is open there stays open",
        f"next: twice {command} --project ROOT, when it can be read again",
    ]
    assert answer.exit_code == 1
    as_json = CliRunner().invoke(app, [*command.split(), "--project", str(tmp_path), "--output", "json"])
    assert AWAY in as_json.stdout and as_json.exit_code == 1


def test_one_that_the_task_wrote_before_is_named_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "twice.toml").write_text('project = "p"\n')
    gone = RemovedFiles("away", 0, (), (), unasked=AWAY, former=True)
    monkeypatch.setattr("twice.project.upkeep.gc", lambda *_: (gone,))
    monkeypatch.setattr("twice.project.upkeep.left_copies", lambda _: ())
    answer = CliRunner().invoke(app, ["gc", "--project", str(tmp_path)])
    assert f"  the table it wrote before could not be read ({AWAY}): its open attempts stay open" in answer.stdout
    assert answer.exit_code == 0
