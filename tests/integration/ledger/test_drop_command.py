"""`twice ledger environments` and `drop-environment`, in this process, on a project whose ledger serves several."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.environment_suite import claimed, meanwhile, publish_with_effect
from typer.testing import CliRunner, Result

from twice.cli.environments import LOST
from twice.cli.main import app
from twice.core.ledger.outbox import EffectState
from twice.core.ledger.record_owner import RecordOwner, TaskTable
from twice.ledgers.ledger import Ledger

Call = Callable[..., Result]
NEXT = "2026-06-10"
REASON = ("--reason", "its branch is merged")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    toml = 'project = "shop"\nenvironment = "prod"\n[profiles.unnamed]\nenvironment = "dev"\nwarehouse = "dev"\n'
    (tmp_path / "twice.toml").write_text(toml)
    return tmp_path


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    return lambda *words: CliRunner().invoke(app, [*words, "--project", str(folder)])


def opened(folder: Path, environment: str, project: str = "shop") -> Any:
    tables = {"revenue": TaskTable(environment, "delta:shop.revenue")}
    url = f"sqlite:///{folder}/.twice/ledger.db"
    return closing(Ledger.open(url, owner=RecordOwner(project, environment, tables)))


def published(folder: Path, environment: str, state: EffectState = EffectState.SENT, project: str = "shop") -> None:
    with opened(folder, environment, project) as ledger:
        publish_with_effect(ledger, f"{project} {environment}", NEXT, state)


def test_every_environment_is_listed_with_what_there_is_of_it(folder: Path, call: Call) -> None:
    published(folder, "prod")
    published(folder, "preview-17", EffectState.UNKNOWN)
    published(folder, "prod", project="other")
    head, *lines, following = call("ledger", "environments").stdout.splitlines()
    assert head.split() == ["project", "environment", "tasks", "slices", "attempts", "effects", "newest", "record"]
    shown = [line.split() for line in lines]
    assert [line[:7] for line in shown] == [
        ["other", "prod", "1", "1", "1", "1", "sent"],
        ["shop", "preview-17", "1", "1", "1", "1", "unknown"],
        ["shop", "prod", "1", "1", "1", "1", "sent"],
    ]
    assert [line[-2:] == ["this", "one"] for line in shown] == [False, False, True]
    assert following.startswith("next: twice ledger drop-environment --project") and "NAME" in following
    data = json.loads(call("ledger", "environments", "--output", "json").stdout)
    assert [(each["environment"], each["present"], each["effects"]) for each in data["environments"]] == [
        ("prod", False, {"sent": 1}),
        ("preview-17", False, {"unknown": 1}),
        ("prod", True, {"sent": 1}),
    ]
    assert data["dropped"] == [] and data["environments"][0]["newest"]


def test_a_dropped_environment_is_gone_and_the_second_drop_says_so(folder: Path, call: Call) -> None:
    published(folder, "prod")
    published(folder, "preview-17")
    first = call("ledger", "drop-environment", "preview-17", *REASON, "--yes")
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [
        "preview-17: 1 task, 1 slice, 1 attempt, 1 effect (1 sent), 0 backfills and 0 proofs deleted from the ledger. "
        "No table was touched.",
        LOST,
    ]
    again = call("ledger", "drop-environment", "preview-17", *REASON, "--yes")
    assert (again.exit_code, again.stdout) == (0, "preview-17: there is nothing of this environment in the ledger\n")
    listed = call("ledger", "environments").stdout.splitlines()
    assert [line.split()[1] for line in listed[1:2]] == ["prod"]
    assert listed[2].startswith("preview-17 of shop was dropped on ")
    assert listed[2].endswith(" by ana: its branch is merged") and len(listed) == 3
    none = call("ledger", "drop-environment", "preview-17", *REASON, "--yes", "--output", "json")
    assert json.loads(none.stdout)["dropped"] is None


def test_what_is_lost_is_said_before_a_person_confirms_it(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(folder, "preview-17")
    asked: list[str] = []

    def no(question: str, **_: object) -> bool:
        asked.append(question)
        return False

    unasked = call("ledger", "drop-environment", "preview-17", *REASON)
    assert unasked.exit_code == 2 and "without a person's confirmation" in unasked.stderr
    # CliRunner's own input is no terminal; what is asked of a person is what counts here.
    monkeypatch.setattr("twice.cli.options.sys", type("Terminal", (), {"stdin": _Terminal(), "stderr": sys.stderr}))
    monkeypatch.setattr("typer.confirm", no)
    refused = call("ledger", "drop-environment", "preview-17", *REASON)
    assert refused.exit_code == 2
    (question,) = asked
    assert "1 task, 1 slice, 1 attempt, 1 effect (1 sent), 0 backfills and 0 proofs of project shop" in question
    assert LOST in question and "No table is touched." in question
    with opened(folder, "preview-17") as ledger:
        assert len(ledger.runs()) == 1


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["prod", "./warehouse"])
def test_the_environment_of_the_profile_is_refused_under_each_of_its_names(folder: Path, call: Call, name: str) -> None:
    """The place that prod's tables are in is what prod was called before it had its name."""
    declare(folder)
    published(folder, "prod")
    refused = call("ledger", "drop-environment", name, *REASON, "--yes")
    assert refused.exit_code == 2
    assert f"error[usage]: {name} is the environment of this profile" in refused.stderr
    assert "No record was deleted, and no table was touched." in refused.stderr
    with opened(folder, "prod") as ledger:
        assert len(ledger.runs()) == 1
    elsewhere = call("ledger", "drop-environment", "prod", *REASON, "--yes", "--profile", "unnamed")
    assert elsewhere.exit_code == 0 and "deleted from the ledger" in elsewhere.stdout


def declare(folder: Path) -> None:
    (folder / "pipelines" / "revenue.py").write_text(
        "from twice import Daily, read, replace, task\n"
        '@task("shop.revenue", scope=Daily("day", start="2026-01-01"), inputs={"o": read("shop.orders", by="day")},\n'
        "      write=replace())\n"
        "def revenue(o):\n    return o\n"
    )


def test_one_that_is_at_work_is_refused_with_who_and_until_when(folder: Path, call: Call) -> None:
    with opened(folder, "preview-17") as ledger:
        claimed(ledger, "a", NEXT)
    refused = call("ledger", "drop-environment", "preview-17", *REASON, "--yes")
    assert refused.exit_code == 3
    assert f"error[busy]: the environment preview-17 is at work: revenue[{NEXT}] by host until 20" in refused.stderr
    assert refused.stderr.endswith(
        "No record was deleted, and no table was touched. Let it end, or stop it and wait until its lease has run out. "
        "Then drop the environment.\n"
    )


def test_a_run_that_begins_in_the_middle_of_a_drop_is_named_and_some_records_are_gone(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(folder, "preview-17")

    def begin() -> None:
        with opened(folder, "preview-17") as ledger:
            claimed(ledger, "new", NEXT)

    meanwhile(monkeypatch, "drop_effects", begin)
    refused = call("ledger", "drop-environment", "preview-17", *REASON, "--yes")
    assert refused.exit_code == 3
    assert "Some of its records are deleted already; no table was touched. Let it end" in refused.stderr


def test_an_effect_that_nobody_settled_is_named_and_can_be_resolved_from_here(folder: Path, call: Call) -> None:
    published(folder, "preview 17", EffectState.IN_DOUBT)
    drop = ("ledger", "drop-environment", "preview 17", *REASON, "--yes")
    refused = call(*drop)
    assert refused.exit_code == 2
    assert refused.stderr.replace(str(folder), "ROOT") == (
        f"error[usage]: the environment preview 17 has 1 effect that nobody has settled: 1 revenue[{NEXT}] tell "
        "(in_doubt). No record was deleted, and no table was touched. Decide on each: twice effects resolve "
        "--project ROOT 1 --environment 'preview 17' --sent|--abandon --reason \"…\". See them: twice effects list "
        "--project ROOT --environment 'preview 17'.\n"
    )
    there = ("--environment", "preview 17")
    assert call("effects", "list").stdout == "no effects yet\n"
    listed = call("effects", "list", *there).stdout
    assert "revenue[2026-06-10] tell" in listed and "1 --environment 'preview 17'" in listed
    shown = call("effects", "show", "1", *there).stdout
    assert shown.splitlines()[-1].endswith(" 1 --environment 'preview 17' --sent|--abandon --reason \"…\"")
    resend = call("effects", "resolve", "1", "--resend", "--reason", "again", *there)
    assert resend.exit_code == 2 and "is not sent from another environment. Nothing was changed." in resend.stderr
    assert call("effects", "resolve", "1", "--abandon", "--reason", "it is gone").exit_code == 2
    assert call("effects", "resolve", "1", "--abandon", "--reason", "it is gone", *there).exit_code == 0
    assert call(*drop).exit_code == 0


@pytest.mark.parametrize("state", [EffectState.RELEASED, EffectState.PENDING, EffectState.DEAD, EffectState.UNKNOWN])
def test_whatever_state_keeps_an_environment_a_person_can_end_it(folder: Path, call: Call, state: EffectState) -> None:
    published(folder, "preview-17", state)
    drop = ("ledger", "drop-environment", "preview-17", *REASON, "--yes")
    assert call(*drop).exit_code == 2
    ended = call("effects", "resolve", "1", "--abandon", "--reason", "gone", "--environment", "preview-17")
    assert "revenue[2026-06-10] tell: abandoned (gone)" in ended.stdout, ended.stderr
    assert call(*drop).exit_code == 0


def test_without_a_reason_nothing_is_dropped(folder: Path, call: Call) -> None:
    published(folder, "preview-17")
    refused = call("ledger", "drop-environment", "preview-17", "--reason", " ", "--yes")
    assert refused.exit_code == 2 and "a reason is needed: it is recorded. No record was deleted" in refused.stderr
