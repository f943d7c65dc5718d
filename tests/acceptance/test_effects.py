"""Effects as a user meets them: the commands, secrets that stay secret, and one run on real Spark and Delta."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.processes.effect_processes import publish
from tests.receivers import HttpReceiver, MailReceiver
from tests.tiny_queries import SPARK_TOML

from twice.core.ports.clock import SYSTEM_CLOCK
from twice.engine.plain import PlainEngine
from twice.project import run as runs
from twice.runtime.context import RunContext
from twice.runtime.run.run_task import run_task
from twice.targets.memory.target import MemoryTarget
from twice.wiring.open_project import open_project

from .conftest import REVENUE, Shop

PIPELINE = """
from datetime import date
from twice import Daily, email, replace, slack, task, webhook
from twice.core.ports import Column
from twice.targets.memory.rows import Rows

@task("shop.revenue", scope=Daily("day", start="2026-01-01"), write=replace(), name="revenue", effects=[
    webhook("{hook}/keyed", body=lambda result: {{"slice": result.slice}}, idempotency_key=True, name="keyed"),
    webhook("{hook}/plain", body=lambda result: {{"slice": result.slice}}, name="plain"),
    {more}
])
def revenue():
    return Rows((Column("day", "date"), Column("revenue", "bigint")), ((date(2026, 6, 9), 15),))
"""


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver().running() as running:
        yield running


def written(root: Path, hook: str, more: str = "", config: str = "") -> Shop:
    shop = Shop(root)
    shop.write("twice.toml", f'project = "p"\n[effects]\nallow = ["127.0.0.1"]\n{config}')
    shop.write("pipelines/revenue.py", PIPELINE.format(hook=hook, more=more))
    return shop


@pytest.fixture
def shop(tmp_path: Path, receiver: HttpReceiver) -> Shop:
    """A project without Spark whose slice `a` is published, and no effect sent yet."""
    made = written(tmp_path / "shop", receiver.url(""))
    with open_project(made.root) as opened:
        publish(opened.ledger, opened.project, "a")
    return made


def test_effects_are_listed_sent_and_shown(shop: Shop, receiver: HttpReceiver) -> None:
    listed = shop.call("effects", "list")
    assert listed.code == 0, listed.err
    assert "2 released" in listed.out
    sent = shop.call("effects", "send")
    assert (sent.code, sent.out) == (0, "2 tries; 2 sent\n")
    assert [one.path for one in receiver.arrivals] == ["/keyed", "/plain"] or len(receiver.arrivals) == 2
    again = shop.call("effects", "send")
    assert (again.code, again.out, len(receiver.arrivals)) == (0, "0 tries; 2 sent\n", 2)
    shown = shop.call("effects", "show", "1")
    assert "revenue[a] keyed: sent" in shown.out
    assert '{"slice": "a"}' in shown.out
    assert re.search(r"sending {2}by .*: try 1", shown.out)
    as_data = shop.call("effects", "show", "1", "--output", "json").data
    assert as_data["effect"]["state"] == "sent"
    assert [step["state"] for step in as_data["events"]] == ["prepared", "released", "pending", "sending", "sent"]


def test_doubt_makes_status_fail_until_a_person_gives_their_word(shop: Shop, receiver: HttpReceiver) -> None:
    receiver.plans.extend(["reset", "reset"])
    sent = shop.call("effects", "send")
    assert sent.code == 1
    assert "1 in_doubt" in sent.out
    assert shop.call("status").code == 1
    assert "effects wait for a person: 1 in_doubt" in shop.call("status").out
    (doubtful,) = shop.call("effects", "list", "--in-doubt", "--output", "json").data["effects"]
    assert (doubtful["name"], doubtful["state"]) == ("plain", "in_doubt")
    number = str(doubtful["id"])
    shown = shop.call("effects", "show", number).out
    assert f"next: twice effects resolve {shop.named} {number} --sent|--resend|--abandon" in shown
    resolved = shop.call("effects", "resolve", number, "--sent", "--reason", "seen in their log")
    assert (resolved.code, resolved.out) == (0, f"{number}  revenue[a] plain: sent (seen in their log)\n")
    assert shop.call("status").code == 0
    last = shop.call("effects", "show", number, "--output", "json").data["events"][-1]
    assert (last["state"], last["why"]) == ("sent", "seen in their log")
    assert "@" in last["who"]
    assert last["at"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resolve", "2"), "give one of --sent, --resend and --abandon"),
        (("resolve", "2", "--sent", "--abandon", "--reason", "x"), "give one of --sent, --resend and --abandon"),
        (("resolve", "2", "--sent"), "a reason is needed"),
        (("resolve", "99", "--sent", "--reason", "x"), "there is no effect 99"),
        (("show", "99"), "there is no effect 99"),
    ],
)
def test_a_word_that_cannot_be_taken_is_refused(shop: Shop, arguments: tuple[str, ...], message: str) -> None:
    answer = shop.call("effects", *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_the_commands_need_no_java(shop: Shop, receiver: HttpReceiver) -> None:
    answer = shop.spawn("effects", "send", env={"JAVA_HOME": "/nowhere", "SPARK_HOME": "/nowhere"})
    assert (answer.code, answer.out) == (0, "2 tries; 2 sent\n")


SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("URL", "HEADER", "SLACK", "SMTP")}


class TestCanary:
    """Secrets planted wherever one can be written turn up at the receivers, and nowhere else."""

    def test_secrets_are_in_no_log_ledger_metadata_error_or_output(
        self,
        tmp_path: Path,
        receiver: HttpReceiver,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        for name, value in SECRETS.items():
            monkeypatch.setenv(f"CANARY_{name}", value)
        caplog.set_level(logging.DEBUG)
        logging.getLogger("httpcore").setLevel(logging.DEBUG)
        receiver.plans.extend(["echo", "reset", "echo", "echo"])
        with MailReceiver().running(auth_require_tls=False, authenticator=_refuses) as mail:
            found = self.everything_printed(tmp_path, receiver, mail)
        found += [caplog.text, *capfd.readouterr()]
        arrived = json.dumps([[one.path, one.headers] for one in receiver.arrivals])
        assert all(SECRETS[name] in arrived for name in ("URL", "HEADER", "SLACK")), "they were really sent"
        for place, text in enumerate(found):
            assert not [value for value in SECRETS.values() if value in text], f"place {place}"

    def everything_printed(self, tmp_path: Path, receiver: HttpReceiver, mail: MailReceiver) -> list[str]:
        more = (
            (
                f'webhook("{receiver.url("")}/secret?token=${{{{env:CANARY_URL}}}}", body="x", name="secret",'
                ' headers={{"Authorization": "Bearer ${{env:CANARY_HEADER}}"}}),'
                ' slack("#finance", text="x"), email("ana@example.com", subject="s", body="b"),'
            )
            .replace("{{", "{")
            .replace("}}", "}")
        )
        config = (
            'slack_token = "${env:CANARY_SLACK}"\n'
            f'slack_url = "{receiver.url("/slack")}"\n'
            f'smtp = "smtp://ana:${{env:CANARY_SMTP}}@127.0.0.1:{mail.port}"\nsmtp_from = "twice@example.com"\n'
        )
        shop = written(tmp_path / "canary", receiver.url(""), more, config)
        target = MemoryTarget()
        with open_project(shop.root) as opened:
            task = opened.project.task("revenue")
            context = RunContext(
                opened.project,
                opened.ledger,
                PlainEngine(),
                lambda table, session: target,
                lambda declared: "code",
                SYSTEM_CLOCK,
                "test",
                senders=opened.senders,
            )
            result = run_task(context, task, runs.slices(opened, "revenue", "2026-06-09"))
            dump = "\n".join(json.dumps(row, default=str) for row in opened.ledger.export())
        assert len(result.effects) == 5
        outputs = [
            shop.call(*command)
            for command in (
                ("effects", "list", "--output", "json"),
                ("effects", "list"),
                *(("effects", "show", str(number)) for number in range(1, 6)),
                *(("effects", "show", str(number), "--output", "json") for number in range(1, 6)),
                ("status", "--output", "json"),
                ("history", "revenue", "--output", "json"),
                ("config", "show", "--output", "json"),
                ("effects", "send", "--debug"),
                ("effects", "resolve", "3", "--resend", "--reason", "again"),
            )
        ]
        files = [file.read_bytes().decode("latin-1") for file in (shop.root / ".twice").iterdir() if file.is_file()]
        notes = repr([version.note for table in target._tables.values() for version in table.versions])
        return [str(asdict(result)), dump, notes, *files, *(answer.out + answer.err for answer in outputs)]

    @pytest.mark.parametrize(
        "declared",
        [
            'webhook("https://ana:pw@example.com/", body="x")',
            'webhook("https://example.com/?token=abc", body="x")',
            'webhook("https://example.com/", body="x", headers={"Authorization": "Bearer abc"})',
            'webhook("https://example.com/", body="x", headers={"X-Api-Key": "abc"})',
        ],
    )
    def test_a_secret_written_out_is_refused_without_repeating_it(self, tmp_path: Path, declared: str) -> None:
        answer = written(tmp_path / "shop", "https://example.com", declared).call("effects", "send")
        assert answer.code == 2
        assert "holds a secret" in answer.err
        assert "abc" not in answer.err
        assert ":pw@" not in answer.err

    def test_a_token_written_out_in_the_configuration_is_refused(self, tmp_path: Path) -> None:
        shop = written(tmp_path / "shop", "https://example.com", config='slack_token = "xoxb-1"\n')
        answer = shop.call("effects", "list")
        assert answer.code == 2
        assert "effects.slack_token holds a secret" in answer.err
        assert "xoxb" not in answer.err


def _refuses(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
    from aiosmtpd.smtp import AuthResult

    return AuthResult(success=False, handled=False)


@pytest.mark.kill
def test_on_spark_a_run_killed_after_its_commit_is_announced_once_by_the_next(
    stocked: Shop, receiver: HttpReceiver, spark: Any
) -> None:
    stocked.write("twice.toml", f'project = "worldshop"\n{SPARK_TOML}[effects]\nallow = ["127.0.0.1"]\n')
    declared = f"""
    effects=[webhook("{receiver.url()}", sample=2, idempotency_key=True, body=lambda result: [
        result.slice, result.rows, result.generation, [row["revenue"] for row in result.sample]])],
    inputs"""
    pipeline = REVENUE.replace("inputs", declared.strip(), 1).replace("import Daily,", "import webhook, Daily,")
    stocked.write("pipelines/revenue.py", pipeline)
    run = ("run", "revenue_daily", "--date", "2026-06-09")
    assert stocked.spawn(*run, env={"TWICE_FAILPOINT": "after_commit"}).code == -9
    assert receiver.arrivals == []
    again = stocked.call(*run)
    assert again.code == 0, again.err
    assert "already published" in again.out
    assert "effect webhook: already sent" in again.out or "effect webhook: sent" in again.out
    assert [one.body for one in receiver.arrivals] == [b'["2026-06-09", 2, 1, ["12.50", "1.00"]]']
    stocked.call(*run)
    assert len(receiver.arrivals) == 1
