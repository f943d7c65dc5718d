"""What a command cannot mean is refused before an engine is started for it: no Java is there to be started."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from twice.cli.main import app
from twice.core.backfill.plan import BackfillPlan, BackfillRequest
from twice.wiring.open_project import open_project

PIPELINES = """
from twice import Daily, Since, append_once, read, replace, task

@task("shop.revenue", scope=Daily("day", start="2026-01-01"), write=replace(), tags=("finance",))
def revenue(run): ...

@task("shop.log", scope=Daily("day", start="2026-01-01"), write=append_once())
def log(run): ...

@task("shop.events", scope=Since("id", initial=0), inputs={"source": read("shop.source", by="id")}, write=append_once(),
      tags=["slow"])
def events(source): ...
"""

WITHOUT_THE_PROJECT = {
    "run revenue --date yesterday": "'yesterday' is not a date",
    "run revenue --date 2026-06-31": "'2026-06-31' is not a date",
    "run revenue --start 2026-06-09": "--start and --end go together",
    "run revenue --start 2026-06-09 --end soon": "soon",
    "run": "no task given",
    "run --all revenue --date 2026-06-09": "--all takes a --date",
    "run --all --date 2026-13": "'2026-13' is not a date",
    "retry": "retry takes a task",
    "plan revenue --date 09.06.2026": "'09.06.2026' is not a date",
    "history revenue --date yesterday": "'yesterday' is not a date",
    "backfill revenue --from 2026-06-01 --to soon": "'soon' is not a date",
    "backfill revenue --from first --to 2026-06-09": "'first' is not a date",
    "prove": "prove takes a task",
    "prove --script job.py --date 2026-06-09": "--script takes no",
    "effects resolve 1": "give one of",
    "ledger prune --older-than 3weeks": "not a number of days",
}
"""What is wrong whatever the project declares."""

WITHOUT_THE_LEDGER = {
    "run nothing --date 2026-06-09": "there is no task",
    "run revenue": "--date",
    "run revenue --date 2025-06-09": "start",
    "run --all": "date",
    "restate log --date 2026-06-09": "cannot be restated",
    "plan revenue": "--date",
}
"""What is wrong by what the project declares: its files are read, and no more than these import."""

HEAVY = ("pyspark", "sqlalchemy", "pandas", "pyarrow", "numpy", "jinja2", "rich", "sqlglot", "psycopg")

IN_TURN = """
import shlex, sys
from twice.cli.main import app
for command in sys.argv[1:]:
    try:
        app(shlex.split(command), prog_name="twice")
    except SystemExit as end:
        print(f"exit {end.code}", file=sys.stderr)
print(*sys.modules)
"""

WRONG = {
    "run nothing --date 2026-06-09": "there is no task",
    "run revenue": "--date",
    "run revenue --date yesterday": "yesterday",
    "run revenue --date 2025-06-09": "start",
    "run revenue --date 2026-06-31": "2026-06-31",
    "run revenue --start 2026-06-09": "--start and --end go together",
    "run revenue --start 2026-06-09 --end soon": "soon",
    "run events --start 2026-06-09 --end 2026-06-10": "not cut by time",
    "run": "no task given",
    "run --all revenue --date 2026-06-09": "--all takes a --date",
    "run --all": "date",
    "run --all --date yesterday": "yesterday",
    "run --all --date 2026-06-31": "2026-06-31",
    "run revenu+ --date 2026-06-09": "Did you mean revenue?",
    "run +nothing log --date 2026-06-09": "there is no task 'nothing'",
    "run tag:finanse --date 2026-06-09": "Did you mean tag:finance?",
    "run finance+ --date 2026-06-09": "Write tag:finance.",
    "run @revenue log --date 2026-06-09": "is not a selector",
    "run revenue log": "--date",
    "run revenue log --date 2025-06-09": "start",
    "run revenue log --start 2026-06-09 --end 2026-06-10": "several tasks take a --date",
    "run tag:finance --silent --date 2026-06-09": "several tasks take a --date",
    "run --all --parallel 0 --date 2026-06-09": "--parallel",
    "run revenue --date 2026-06-09 --profile prod": "prod",
    "restate log --date 2026-06-09": "cannot be restated",
    "restate events": "no slice to compute again",
    "retry": "retry takes a task",
    "retry nothing": "there is no task",
    "retry revenue --date yesterday": "yesterday",
    "retry revenue log --date 2026-06-09": "retry takes a task",
    "retry revenu+": "Did you mean revenue?",
    "plan nothing": "there is no task",
    "plan": "plan takes a task, or --all",
    "plan revenue --all --date 2026-06-09": "plan takes a task, or --all",
    "plan --all": "date",
    "plan --all --date yesterday": "yesterday",
    "plan revenue --date yesterday": "yesterday",
    "backfill nothing --from 2026-06-01 --to 2026-06-09": "there is no task",
    "backfill revenue --from 2026-06-09 --to 2026-06-01": "is after",
    "backfill revenue --from 2026-06-01 --to soon": "soon",
    "backfill revenue --from 2026-06-01 --to 2026-06-09 --only wrong": "wrong",
    "backfill revenue --from 2026-06-01 --to 2026-06-09 --batch wrong": "wrong",
    "backfill log --from 2026-06-01 --to 2026-06-09 --restate": "cannot be restated",
    "backfill revenue --from 2026-06-01 --to 2026-06-09 --name taken": "asked for something else",
    "backfill revenue": "a backfill needs --from 2026-01-01 and --to 2026-12-31",
    "backfill revenue --only stale,missing": "a backfill needs --from",
    "backfill revenue --from 2026-06-01": "go together",
    "backfill events --only stale": "not cut by time",
    "backfill --only stale": "backfill takes tasks, or --all",
    "backfill revenue --all --only stale": "backfill takes tasks, or --all",
    "backfill tag:nothing --only stale": "no task of this project has the tag",
    "backfill events log+ --from 2026-06-01 --to soon": "is not a date",
    "backfill events tag:slow --only stale": "none of these tasks can be backfilled",
    "backfill --all --from 2025-06-01 --to 2025-06-09": "none of these tasks can be backfilled",
    "backfill --all --from 2026-06-09 --to 2026-06-01": "is after",
    "backfill --all --only stale --name mine": "--name is for one task",
    "backfill revenue+ --only stale --with-downstream": "--with-downstream is for one task",
    "backfill resume nothing": "there is no backfill",
    "backfill show nothing": "there is no backfill",
    "backfill pause nothing": "there is no backfill",
    "backfill cancel nothing": "there is no backfill",
    "worker --backfill nothing": "there is no backfill",
    "prove": "prove takes a task",
    "prove nothing --date 2026-06-09": "there is no task",
    "prove revenue --date yesterday": "yesterday",
    "prove revenue --date 2026-06-09 --scenario wrong": "there is no scenario",
    "prove revenue --date 2026-06-09 --kill --scenario wrong": "there is no scenario",
    "prove --script job.py --date 2026-06-09": "--script takes no",
    "prove --script none.py --table a.b": "none.py",
    "takeover nothing --reason x --yes": "there is no task",
    "accept nothing --reason x": "there is no task",
    "adopt shop.revenue --task revenue --published soon": "soon",
    "adopt shop.revenue --task revenue --published soon --yes": "soon",
    "adopt shop.revenue --task revenue --published 2026-06-09..2026-06-01 --yes": "is after",
    "adopt shop.other --task revenue --yes": "writes shop.revenue",
    "rebuild nothing --yes": "there is no task",
    "rebuild revenue --from soon": "soon",
    "rebuild revenue --from 2026-06-09 --to 2026-06-01 --yes": "is after",
    "rebuild revenue --abandon --copy": "drops all",
    "rebuild revenue --rename region --yes": "OLD=NEW",
    "rebuild log --from 2026-06-09 --yes": "copied as a whole",
    "rebuild events --adopted --yes": "copied as a whole",
    "accept revenue --reason x": "nothing to accept",
    "accept log --date yesterday --reason x": "yesterday",
    "mark show nothing": "there is no task",
    "mark show revenue": "keeps no mark",
    "mark reset nothing --reason x --yes": "there is no task",
    "mark reset events --to soon --reason x --yes": "not a mark",
    "mark reset revenue --reason x --yes": "keeps no mark",
    "ledger prune --older-than 3weeks": "not a number of days",
    "ledger prune --older-than 0d": "younger than a day",
    "ledger unassigned --take nothing": "there is no task",
    "effects resolve 1": "give one of --sent, --resend and --abandon",
    "effects resolve 1 --sent --resend --reason x": "give one of",
    "effects resolve 1 --sent --reason x": "there is no effect 1",
    "effects show 1": "there is no effect 1",
    "effects send --task nothing": "there is no task",
    "status nothing": "there is no task",
    "status nothing --refresh": "there is no task",
    "status --refresh --calendar": "a calendar shows one task",
    "status revenue --calendar --stale": "a calendar shows every state",
    "history revenue --date yesterday": "yesterday",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "twice.toml").write_text('project = "p"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.py").write_text(PIPELINES)
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a process was started")

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setattr(subprocess, "Popen", started)


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize("command", WRONG)
def test_what_makes_no_sense_is_refused_before_an_engine_is_started(command: str, project: Path) -> None:
    if "taken" in command:
        with open_project() as opened:
            other = BackfillRequest("log", "2026-06-01", "2026-06-09")
            opened.ledger.backfills.create(BackfillPlan("taken", other, ()))
    answer = CliRunner().invoke(app, command.split())
    assert answer.exit_code == 2, answer.output
    assert WRONG[command] in answer.stderr


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_is_needed_would_have_been_missed(project: Path) -> None:
    """That the tests above can fail."""
    answer = CliRunner().invoke(app, ["run", "revenue", "--date", "2026-06-09"])
    assert answer.exit_code == 4, answer.output
    assert "JAVA_HOME" in answer.stderr


@pytest.mark.usefixtures("no_engine")
def test_where_nothing_has_failed_no_engine_is_needed_to_say_so(project: Path) -> None:
    answer = CliRunner().invoke(app, ["retry", "--failed"])
    assert (answer.exit_code, answer.output) == (0, "nothing has failed\n")


def in_turn(commands: Mapping[str, str], project: Path) -> set[str]:
    """What is loaded after these commands, each of which was refused for its reason."""
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, *commands], cwd=project, capture_output=True, text=True, timeout=60
    )
    answers = done.stderr.split("exit 2\n")[:-1]
    assert len(answers) == len(commands), done.stderr
    assert [why for answer, why in zip(answers, commands.values(), strict=True) if why not in answer] == []
    return set(done.stdout.split())


@pytest.mark.process
def test_what_no_project_could_mean_is_refused_before_the_project_is_read(project: Path) -> None:
    (project / "pipelines" / "shop.py").write_text("import pyspark.sql\nraise SystemExit('it was read')\n")
    assert in_turn(WITHOUT_THE_PROJECT, project).isdisjoint(HEAVY)


@pytest.mark.process
def test_what_this_project_cannot_mean_is_refused_with_nothing_loaded_but_its_own_imports(project: Path) -> None:
    file = project / "pipelines" / "shop.py"
    assert in_turn(WITHOUT_THE_LEDGER, project).isdisjoint(HEAVY)
    file.write_text(f"import pyspark.sql\n{PIPELINES}")
    loaded = in_turn(WITHOUT_THE_LEDGER, project)
    assert loaded & {*HEAVY} == {"pyspark"}


@pytest.mark.process
def test_a_usage_error_takes_little_longer_than_to_say_the_version(project: Path) -> None:
    """That is 0.2 s where nothing else works, and half a second for an error then. In the processor's own time, and
    against the other one: the machine may be busy."""
    version = processor_seconds(project, "--version")
    assert processor_seconds(project, "run", "revenue", "--date", "yesterday") < 2 * version
    assert processor_seconds(project, "run", "revenue") < 3 * version


def processor_seconds(project: Path, *command: str) -> float:
    """The least of three."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "twice", *command], cwd=project, capture_output=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)
