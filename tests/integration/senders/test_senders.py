"""Senders against real receivers: what was accepted, what was surely refused, what is in doubt, and what never left."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email import message_from_bytes
from email.policy import default
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.receivers import HttpReceiver, MailReceiver

from twice import email, slack, webhook
from twice.core.effect import Message, PublishedSlice
from twice.core.ledger.outbox import Answer, Delivered, Doubtful, Refused
from twice.core.ports import NotLeaving, OutgoingMessage
from twice.errors import DeclarationError
from twice.senders.address import Allowed
from twice.senders.email import EmailSender
from twice.senders.http import Http
from twice.senders.slack import SlackSender
from twice.senders.webhook import WebhookSender

LOCAL = Allowed(("127.0.0.1",))
KEY = "k" * 64
AT = datetime(2026, 6, 9, 12, tzinfo=timezone.utc)
RESULT = PublishedSlice("p", "revenue", "2026-06-09", 1, 3, "f", 1)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver().running() as running:
        yield running


def post(
    receiver: HttpReceiver, *, keyed: bool = False, http: Http | None = None, url: str | None = None, **headers: str
) -> Answer:
    sender = WebhookSender(http or Http(LOCAL, seconds=1.0))
    message = Message((url or receiver.url(),), '{"rows":3}', headers)
    return sender.send(OutgoingMessage(KEY, keyed, message), lambda: None)


class TestWebhook:
    def test_an_accepted_request_is_delivered_with_its_answer_as_the_receipt(self, receiver: HttpReceiver) -> None:
        assert post(receiver, keyed=True) == Delivered('HTTP 200 {"id":7}')
        (arrival,) = receiver.arrivals
        assert (arrival.path, arrival.body, arrival.key) == ("/hook", b'{"rows":3}', KEY)

    def test_without_a_key_no_key_is_sent(self, receiver: HttpReceiver) -> None:
        post(receiver)
        assert receiver.arrivals[0].key is None

    def test_a_refused_connection_surely_sent_nothing(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            closed = HttpReceiver(port=taken.getsockname()[1])
            answer = post(closed)
        assert isinstance(answer, Refused)
        assert not answer.for_good

    def test_a_name_nobody_knows_surely_sent_nothing(self, receiver: HttpReceiver) -> None:
        assert isinstance(post(receiver, url="https://nobody.invalid/hook"), Refused)

    def test_a_connection_reset_after_the_request_is_in_doubt(self, receiver: HttpReceiver) -> None:
        receiver.plans.append("reset")
        assert isinstance(post(receiver), Doubtful)
        assert receiver.arrivals[0].acted, "and rightly so"

    @pytest.mark.parametrize("plan", ["hang", "drip"])
    def test_a_receiver_that_takes_its_time_is_in_doubt_before_long(self, receiver: HttpReceiver, plan: str) -> None:
        receiver.plans.append(plan)
        began = time.monotonic()
        assert isinstance(post(receiver), Doubtful)
        assert time.monotonic() - began < 10

    @pytest.mark.parametrize(
        ("plan", "keyed", "expected"),
        [
            (400, False, Refused("", True)),
            (401, False, Refused("", True)),
            (404, False, Refused("", True)),
            (409, False, Refused("", True)),
            (409, True, Doubtful("")),
            (422, True, Refused("", True)),
            (422, False, Refused("", True)),
            (408, False, Doubtful("")),
            (429, False, Refused("")),
            ((429, {"Retry-After": "7"}, ""), False, Refused("", wait=timedelta(seconds=7))),
            ((503, {"Retry-After": "7"}, ""), False, Refused("", wait=timedelta(seconds=7))),
            (503, False, Doubtful("")),
            (500, False, Doubtful("")),
            (502, True, Doubtful("")),
            (504, False, Doubtful("")),
            (302, False, Refused("", True)),
        ],
    )
    def test_each_status_is_what_it_says(
        self, receiver: HttpReceiver, plan: Any, keyed: bool, expected: Refused | Doubtful
    ) -> None:
        receiver.plans.append(plan)
        answer = post(receiver, keyed=keyed)
        assert type(answer) is type(expected)
        assert isinstance(answer, Refused | Doubtful)
        assert answer.wait == expected.wait
        assert getattr(answer, "for_good", None) == getattr(expected, "for_good", None)

    def test_the_date_of_a_retry_is_honoured(self, receiver: HttpReceiver) -> None:
        until = datetime.now(timezone.utc) + timedelta(minutes=5)
        receiver.plans.append((429, {"Retry-After": format_datetime(until, usegmt=True)}, ""))
        answer = post(receiver)
        assert isinstance(answer, Refused)
        assert timedelta(minutes=4) < (answer.wait or timedelta(0)) <= timedelta(minutes=5)

    def test_one_try_is_one_request_whatever_the_answer(self, receiver: HttpReceiver) -> None:
        for plan in ("reset", 503, 429, 500):
            receiver.plans.append(plan)
            before = receiver.connections
            post(receiver, keyed=True)
            assert receiver.connections == before + 1

    def test_a_redirect_is_not_followed(self, receiver: HttpReceiver) -> None:
        with HttpReceiver().running() as other:
            receiver.plans.append((307, {"Location": other.url()}, ""))
            post(receiver)
            assert other.arrivals == []

    def test_a_proxy_of_the_environment_is_not_asked(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with HttpReceiver().running() as proxy:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, proxy.url(""))
            post(receiver)
            assert (len(receiver.arrivals), proxy.connections) == (1, 0)

    def test_a_try_that_may_not_leave_sends_no_byte(self, receiver: HttpReceiver) -> None:
        def judged() -> None:
            raise NotLeaving

        sender = WebhookSender(Http(LOCAL))
        with pytest.raises(NotLeaving):
            sender.send(OutgoingMessage(KEY, False, Message((receiver.url(),), "x")), judged)
        assert receiver.arrivals == []

    def test_leaving_is_asked_once_when_the_connection_stands(self, receiver: HttpReceiver) -> None:
        asked: list[tuple[int, int]] = []

        def leaving() -> None:
            time.sleep(0.05)
            asked.append((receiver.connections, len(receiver.arrivals)))

        WebhookSender(Http(LOCAL)).send(OutgoingMessage(KEY, False, Message((receiver.url(),), "x" * 200_000)), leaving)
        assert asked == [(1, 0)]

    def test_a_body_that_is_not_text_goes_out_as_json_with_sorted_names(self) -> None:
        effect = webhook("https://example.com", body=lambda result: {"rows": result.rows, "day": result.slice})
        message = WebhookSender(Http()).compose(effect, RESULT, KEY, AT)
        assert message.body == '{"day": "2026-06-09", "rows": 3}'
        assert message.headers == {"Content-Type": "application/json"}


class TestWhereItMayGo:
    def test_plain_http_is_refused(self, receiver: HttpReceiver) -> None:
        answer = post(receiver, http=Http())
        assert isinstance(answer, Refused)
        assert (answer.for_good, receiver.connections) == (True, 0)
        assert "not https" in answer.why

    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "169.254.169.254",
            "10.0.0.1",
            "[::ffff:169.254.169.254]",
            "0.0.0.0",
            "[fec0::1]",
            "[64:ff9b:1::a9fe:a9fe]",
            "[::127.0.0.1]",
        ],
    )
    def test_a_private_or_metadata_address_is_refused(self, receiver: HttpReceiver, host: str) -> None:
        answer = post(receiver, http=Http(seconds=2), url=f"https://{host}:{receiver.port}/")
        assert isinstance(answer, Refused)
        assert (answer.for_good, receiver.connections) == (True, 0)
        assert "not a public address" in answer.why

    def test_one_private_address_among_public_ones_is_refused(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _names(monkeypatch, ["93.184.216.34", "127.0.0.1"])
        answer = post(receiver, http=Http(), url=f"https://hooks.example.com:{receiver.port}/")
        assert isinstance(answer, Refused)
        assert "127.0.0.1" in answer.why

    def test_the_address_that_was_checked_is_the_one_connected_to(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = _names(monkeypatch, ["127.0.0.1"])
        url = f"http://hooks.example.com:{receiver.port}/hook"
        assert isinstance(post(receiver, http=Http(Allowed(("hooks.example.com",))), url=url), Delivered)
        assert asked.count("hooks.example.com") == 1, "a second look-up could get another address"
        assert receiver.arrivals[0].headers["Host"] == f"hooks.example.com:{receiver.port}"

    def test_an_international_name_is_asked_for_and_named_as_the_network_knows_it(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for allowed in ("münchen.example", "xn--mnchen-3ya.example", "MÜNCHEN.example."):
            asked = _names(monkeypatch, ["127.0.0.1"])
            url = f"http://hook:secret@München.example:{receiver.port}/hook"
            assert isinstance(post(receiver, http=Http(Allowed((allowed,))), url=url), Delivered), allowed
            assert [name for name in asked if not name.startswith("127")] == ["xn--mnchen-3ya.example"]
            assert receiver.arrivals[-1].headers["Host"] == f"xn--mnchen-3ya.example:{receiver.port}"

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("https://straße.example/", "ß"),  # two standards lead to two hosts
            ("https://example\uff0f.com/", "it cannot be sent"),
            ("https://[::1/", "it cannot be sent"),
            ("https://" + "ü" * 64 + ".example/", "it cannot be sent"),
        ],
    )
    def test_a_name_that_may_be_another_host_or_none_is_refused_for_good(
        self, receiver: HttpReceiver, url: str, why: str
    ) -> None:
        answer = post(receiver, http=Http(seconds=2), url=url)
        assert isinstance(answer, Refused)
        assert answer.for_good
        assert why in answer.why

    def test_a_network_may_be_allowed(self, receiver: HttpReceiver) -> None:
        assert isinstance(post(receiver, http=Http(Allowed(("127.0.0.0/8",)))), Delivered)


def _names(monkeypatch: pytest.MonkeyPatch, addresses: list[str]) -> list[str]:
    """Every name leads to these addresses; which names were asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def answer(host: str, port: Any, *args: Any, **options: Any) -> Any:
        asked.append(host)
        if host in addresses:
            return real(host, port, *args, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certificates(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


def served(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


class TestTls:
    def test_a_known_authority_is_trusted(self, authority: trustme.CA, certificates: str) -> None:
        with HttpReceiver().running(served(authority)) as receiver:
            assert isinstance(post(receiver, http=Http(LOCAL, certificates=certificates)), Delivered)

    def test_an_unknown_authority_gets_nothing(self, authority: trustme.CA) -> None:
        with HttpReceiver().running(served(authority)) as receiver:
            answer = post(receiver, http=Http(LOCAL))
            assert isinstance(answer, Refused)
            assert (answer.for_good, receiver.arrivals) == (True, [])
            assert "certificate" in answer.why.lower()

    def test_the_certificate_of_another_name_gets_nothing(self, authority: trustme.CA, certificates: str) -> None:
        with HttpReceiver().running(served(authority, "other.example.com")) as receiver:
            assert isinstance(post(receiver, http=Http(LOCAL, certificates=certificates)), Refused)
            assert receiver.arrivals == []


class TestSecrets:
    def test_references_are_revealed_to_the_receiver_and_hidden_in_what_is_reported(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOOK_TOKEN", "s3cr3t/canary")
        receiver.plans.append("echo")
        url = receiver.url("/hook?token=${env:HOOK_TOKEN}")
        answer = post(receiver, url=url, Authorization="Bearer ${env:HOOK_TOKEN}")
        (arrival,) = receiver.arrivals
        assert arrival.headers["Authorization"] == "Bearer s3cr3t/canary"
        assert "s3cr3t" in arrival.path
        assert isinstance(answer, Refused)
        assert "HTTP 401" in answer.why
        assert "s3cr3t" not in answer.why

    def test_a_password_in_the_url_becomes_a_header(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOOK_PASSWORD", "pw")
        post(receiver, url=receiver.url().replace("://", "://ana:${env:HOOK_PASSWORD}@"))
        assert receiver.arrivals[0].headers["Authorization"] == "Basic YW5hOnB3"

    def test_a_reference_to_nothing_is_reported_by_its_name(self, receiver: HttpReceiver) -> None:
        with pytest.raises(DeclarationError, match="the environment variable NO_SUCH_TOKEN is not set"):
            post(receiver, Authorization="Bearer ${env:NO_SUCH_TOKEN}")
        assert receiver.connections == 0


class TestSlack:
    def send(self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> Answer:
        monkeypatch.setenv("SLACK_TOKEN", "xoxb-canary")
        sender = SlackSender(Http(LOCAL, seconds=1), "${env:SLACK_TOKEN}", receiver.url("/api/chat.postMessage"))
        message = sender.compose(slack("#finance", text=lambda result: f"{result.rows} rows"), RESULT, KEY, AT)
        return sender.send(OutgoingMessage(KEY, False, message), lambda: None)

    def test_a_posted_message_is_delivered(self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
        receiver.plans.append((200, {}, '{"ok": true, "ts": "17.5"}'))
        assert self.send(receiver, monkeypatch) == Delivered("Slack message 17.5")
        (arrival,) = receiver.arrivals
        assert arrival.body == b'{"channel": "#finance", "text": "3 rows"}'
        assert arrival.headers["Authorization"] == "Bearer xoxb-canary"

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ('{"ok": false, "error": "channel_not_found"}', Refused("Slack answered channel_not_found", True)),
            ('{"ok": false, "error": "fatal_error"}', Doubtful("Slack answered fatal_error")),
            ('{"ok": false, "error": "ratelimited"}', Refused("Slack answered ratelimited")),
            ("<html>", Doubtful("Slack's answer is not in its usual form: <html>")),
        ],
    )
    def test_an_ok_status_is_not_yet_a_posted_message(
        self, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch, answer: str, expected: Answer
    ) -> None:
        receiver.plans.append((200, {}, answer))
        assert self.send(receiver, monkeypatch) == expected

    def test_without_a_token_nothing_is_tried(self) -> None:
        message = Message(("#finance",), "{}")
        with pytest.raises(DeclarationError, match="no token for Slack is configured. Set"):
            SlackSender(Http(), None).send(OutgoingMessage(KEY, False, message), lambda: None)


class TestEmail:
    def send(self, server: str, *to: str, body: str = "3 rows", **options: Any) -> Answer:
        sender = EmailSender(server, "twice@example.com", **{"allowed": LOCAL, **options})
        effect = email(list(to) or ["ana@example.com"], subject="Révenue", body=body)
        message = sender.compose(effect, RESULT, KEY, AT)
        return sender.send(OutgoingMessage(KEY, False, message), lambda: None)

    @pytest.fixture
    def mail(self) -> Iterator[MailReceiver]:
        with MailReceiver().running() as running:
            yield running

    def test_a_mail_arrives_whole_with_the_same_id_in_every_try(self, mail: MailReceiver) -> None:
        body = "Hello,\n.a line with a dot\n..two\nwörld"
        answer = self.send(f"smtp://127.0.0.1:{mail.port}", "ana@example.com", "bo@example.com", body=body)
        assert answer == Delivered("SMTP 250 queued as A1")
        (envelope,) = mail.mails
        assert (envelope.mail_from, envelope.rcpt_tos) == ("twice@example.com", ["ana@example.com", "bo@example.com"])
        found = message_from_bytes(envelope.content, policy=default)
        assert found["Message-ID"] == f"<{KEY[:32]}@example.com>"
        assert (found["Subject"], found["Date"]) == ("Révenue", "Tue, 09 Jun 2026 12:00:00 +0000")
        assert found.get_content().replace("\r\n", "\n").rstrip("\n") == body

    def test_a_reset_after_the_data_is_in_doubt(self, mail: MailReceiver) -> None:
        mail.plans.append("reset")
        assert isinstance(self.send(f"smtp://127.0.0.1:{mail.port}"), Doubtful)
        assert len(mail.mails) == 1, "and rightly so"

    @pytest.mark.parametrize(("plan", "for_good"), [("451 later", False), ("554 spam", True)])
    def test_an_answer_to_the_data_is_believed(self, mail: MailReceiver, plan: str, for_good: bool) -> None:
        mail.plans.append(plan)
        assert self.send(f"smtp://127.0.0.1:{mail.port}") == Refused(f"SMTP {plan}", for_good)

    def test_one_unknown_recipient_and_nobody_gets_it(self, mail: MailReceiver) -> None:
        mail.unknown.add("bo@example.com")
        answer = self.send(f"smtp://127.0.0.1:{mail.port}", "ana@example.com", "bo@example.com")
        assert (answer, mail.mails) == (Refused("SMTP 550 no such user", True), [])

    def test_a_server_that_is_not_there_surely_got_nothing(self, mail: MailReceiver) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            answer = self.send(f"smtp://127.0.0.1:{taken.getsockname()[1]}")
        assert isinstance(answer, Refused)
        assert not answer.for_good

    def test_a_server_without_tls_gets_nothing_unless_it_is_allowed(self, mail: MailReceiver) -> None:
        answer = self.send(f"smtp://localhost:{mail.port}", allowed=Allowed())
        assert isinstance(answer, Refused)
        assert "STARTTLS" in answer.why
        assert mail.mails == []

    def test_starttls_is_used_and_the_certificate_checked(self, authority: trustme.CA, certificates: str) -> None:
        with MailReceiver().running(served(authority, "localhost"), require_starttls=True) as mail:
            place = f"smtp://localhost:{mail.port}"
            assert isinstance(self.send(place, allowed=Allowed()), Refused)
            assert mail.mails == []
            assert isinstance(self.send(place, allowed=Allowed(), certificates=certificates), Delivered)

    def test_a_subject_cannot_smuggle_in_a_header(self) -> None:
        sender = EmailSender(None, "twice@example.com")
        effect = email("ana@example.com", subject="x\nBcc: all@example.com", body="b")
        with pytest.raises(ValueError, match="newline|linefeed"):
            sender.compose(effect, RESULT, KEY, AT)

    def test_a_try_that_may_not_leave_delivers_nothing(self, mail: MailReceiver) -> None:
        def judged() -> None:
            raise NotLeaving

        sender = EmailSender(f"smtp://127.0.0.1:{mail.port}", "twice@example.com", LOCAL)
        message = sender.compose(email("ana@example.com", subject="s", body="b"), RESULT, KEY, AT)
        with pytest.raises(NotLeaving):
            sender.send(OutgoingMessage(KEY, False, message), judged)
        assert mail.mails == []
