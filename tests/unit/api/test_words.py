"""What the verbs raise and note names arguments and calls, where the command line names options and commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import twice
from twice.cli.main import app
from twice.core.backfill.plan import BackfillPlan, BackfillRequest
from twice.core.hints import hint, option
from twice.core.ledger.record import AttemptState, ClaimRequest
from twice.errors import Hint, TwiceError, UsageError
from twice.runtime.run.quarantine import refuse_quarantined
from twice.wiring.open_project import open_project

SOURCE = Path(twice.__file__).parent
OLD: Any = ["old"]
BERLIN = "2026-06-09T00:00:00+02:00"
MESSAGES: list[tuple[Any, str, list[str], str]] = [
    (
        lambda root: twice.run("revenue", project=root),
        'Give the logical date: date="2026-06-09".',
        ["run", "revenue"],
        "Give the logical date: --date 2026-06-09.",
    ),
    (
        lambda root: twice.restate("everything", date="2026-06-09", project=root),
        "Leave out date=….",
        ["restate", "everything", "--date", "2026-06-09"],
        "Leave out --date.",
    ),
    (
        lambda root: twice.run("revenue", date=BERLIN, project=root),
        'Give the day itself: date="2026-06-09".',
        ["run", "revenue", "--date", BERLIN],
        "Give the day itself: --date 2026-06-09.",
    ),
    (
        lambda root: twice.run("revenue", interval=("2026-06-09", "2026-06-09"), project=root),
        "or pass the logical date with date=….",
        ["run", "revenue", "--start", "2026-06-09", "--end", "2026-06-09"],
        "or pass the logical date with --date.",
    ),
    (
        lambda root: twice.backfill("revenue", "2026-06-09", "2026-06-01", project=root),
        'first="2026-06-09" is after last="2026-06-01". Both ends are included.',
        ["backfill", "revenue", "--from", "2026-06-09", "--to", "2026-06-01"],
        "--from 2026-06-09 is after --to 2026-06-01. Both ends are included.",
    ),
    (
        lambda root: twice.backfill("revenue", "2026-06-01", "2026-06-02", only=OLD, project=root),
        "only=[\"old\"]: 'old' cannot be chosen.",
        ["backfill", "revenue", "--from", "2026-06-01", "--to", "2026-06-02", "--only", "old"],
        "--only old: 'old' cannot be chosen.",
    ),
    (
        lambda root: twice.backfill("revenue", "2026-06-01", "2026-06-02", only=["published"], project=root),
        "Use restate=True.",
        ["backfill", "revenue", "--from", "2026-06-01", "--to", "2026-06-02", "--only", "published"],
        "Use --restate.",
    ),
    (
        lambda root: twice.backfill("revenue", "2026-06-01", "2026-06-02", batch=0, project=root),
        "batch=0 is not a valid number of slices.",
        ["backfill", "revenue", "--from", "2026-06-01", "--to", "2026-06-02", "--batch", "0"],
        "--batch 0 is not a valid number of slices.",
    ),
    (
        lambda root: twice.backfill("everything", "2026-06-01", "2026-06-02", project=root, profile="prod"),
        'To compute it again: twice.restate("everything", project="ROOT", profile="prod").',
        ["backfill", "everything", "--from", "2026-06-01", "--to", "2026-06-02", "--profile", "prod"],
        "To compute it again: twice restate --project ROOT --profile prod everything.",
    ),
]


@pytest.mark.parametrize(("call", "python", "command", "command_line"), MESSAGES)
def test_each_caller_gets_its_own_words(
    root: Path, call: Any, python: str, command: list[str], command_line: str
) -> None:
    with pytest.raises(UsageError) as refused:
        call(root)
    assert python.replace("ROOT", str(root)) in str(refused.value)
    assert "--" not in str(refused.value)
    answer = CliRunner().invoke(app, [*command, "--project", str(root)])
    assert command_line.replace("ROOT", str(root)) in answer.stderr


def test_a_quarantined_slice_names_the_calls_that_help(root: Path) -> None:
    with open_project(root) as opened:
        opened.ledger.claim(ClaimRequest("revenue", ["2026-06-09"], "a", "run", "h"), timedelta(minutes=1))
        opened.ledger.close_attempt("a", AttemptState.FAILED)
        opened.ledger.quarantine("a", "why")
        context: Any = opened
        with pytest.raises(TwiceError) as refused:
            refuse_quarantined(context, opened.project.task("revenue"), ["2026-06-09"])
    fix = refused.value.fix
    assert isinstance(fix, Hint)
    assert fix.endswith("twice retry revenue --date 2026-06-09.")
    assert fix.python.endswith('twice.retry("revenue", date="2026-06-09").')


def test_a_plan_of_a_dry_run_notes_the_argument(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = hint("stale; {} makes them right too", option("only", ("missing", "stale")))
    request = BackfillRequest("revenue", "2026-06-01", "2026-06-02")
    plan = BackfillPlan("june", request, (), notes=(note,))
    monkeypatch.setattr("twice.project.backfill.plan", lambda *_: plan)
    found = twice.backfill("revenue", "2026-06-01", "2026-06-02", dry_run=True, project=root)
    assert found.notes == ('stale; only=["missing", "stale"] makes them right too',)


SHELL_ALONE = re.compile(
    r"twice (mark reset|takeover|accept|rebuild|adopt|run --all|backfill show|lint|ledger|effects|gc|doctor|warm)\b"
    r"|pip install|--conf|--twice-|-- --"
)
"""Texts of commands that Python has no verb for, and of other programs."""

ELSEWHERE = {
    "cli": "the command line itself",
    "lint": "has no verb in Python",
    "config": "documentation of twice.toml",
    "pytest_plugin.py": "options of pytest",
    "runtime/effects": "of `twice effects`, which has no verb in Python",
    "project/effects.py": "of `twice effects`, which has no verb in Python",
    "project/environments.py": "of `twice ledger`, which has no verb in Python",
    "runtime/upkeep": "of `twice ledger`, `mark`, `takeover`, `adopt` and `accept`, which have no verb in Python",
    "runtime/rebuild": "of `twice rebuild`, which has no verb in Python",
    "proof/jobs/script.py": "of `twice prove --script`, which has no verb in Python",
    "core/hints.py": "where both wordings are made",
    "errors.py": "where both wordings stand side by side",
}


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text but docstrings; of an f-string the whole."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        else:
            yield from texts(node)


def test_no_message_that_python_can_meet_is_written_with_an_option_of_the_command_line() -> None:
    """They are written by `core.hints`, which knows both kinds of callers."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if any(name == place or name.startswith(f"{place}/") for place in ELSEWHERE):
            continue
        options = [text for text in texts(ast.parse(path.read_text())) if re.search(r"(?<![\w-])--[a-z]", text)]
        if wrong := [text for text in options if not SHELL_ALONE.search(text)]:
            found[name] = wrong
    assert found == {}
