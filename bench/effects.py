"""Effects: a list over 100,000 of them, and a thousand webhooks drained.

    python -m bench.effects --json bench/results/effects.json

The receiver is a process of its own and takes 20 ms for each request. The other side of the drain is a loop that posts
one after the other and keeps no outbox: it can neither be killed nor run twice.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpcore
from bench.measuring import Row, arguments, interleaved, report
from sqlalchemy import insert

from twice import Daily, replace, task, webhook
from twice.core.effect import Message
from twice.core.ledger.outbox import PublishedGeneration, prepare
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts
from twice.core.ledger.record_owner import RecordOwner
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import Project, assemble
from twice.ledgers.database.effect_tables import effects
from twice.ledgers.ledger import Ledger
from twice.runtime.effects.delivery import Delivery, drain, render_released
from twice.runtime.holder import this_process
from twice.senders.address import Allowed
from twice.senders.http import Http
from twice.senders.webhook import WebhookSender

EFFECTS = 100_000
WEBHOOKS = 1_000
TAKES = 0.02
STATES = ("sent", "sent", "sent", "sent", "pending", "in_doubt")


class Slow(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(TAKES)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to say."""


class Receiver(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def serve(pipe: Any) -> None:
    server = Receiver(("127.0.0.1", 0), Slow)
    pipe.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def receiver() -> Iterator[str]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/hook"
    finally:
        process.kill()
        process.join()


def filled(folder: Path) -> Ledger:
    """A project's folder with a ledger of many effects."""
    (folder / "pipelines").mkdir()
    (folder / "twice.toml").write_text('project = "bench"\nledger = "ledger.db"\n')
    owner = RecordOwner("bench", "./warehouse")  # as the command line will open it
    ledger = Ledger.open(f"sqlite:///{folder}/ledger.db", owner=owner)
    now = ledger.now()
    message = Message(("https://example.com/hook",), json.dumps({"rows": 15, "text": "x" * 200})).to_json()
    rows = [
        {
            "key": f"{number:064x}",
            "task": owner.key(f"task_{number % 20}"),
            "label": f"slice-{number}",
            "name": "webhook",
            "kind": "webhook",
            "occasion": "",
            "attempt": f"attempt-{number}",
            "generation": 1,
            "fingerprint": "f",
            "state": STATES[number % len(STATES)],
            "keyed": False,
            "remembers": 86400,
            "message": message,
            "fence": 1,
            "due": now,
            "prepared": now,
            "changed": now,
        }
        for number in range(EFFECTS)
    ]
    with ledger._writing() as connection:
        ledger._own.register(connection, [f"task_{number}" for number in range(20)])
        connection.execute(insert(effects), rows)
    return ledger


def timed(act: Callable[[], object], rounds: int) -> float:
    """The median of so many calls, after one that is not measured."""
    return interleaved(lambda _: act(), lambda _: None, rounds)[0]


def lists(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ledger = filled(folder)
        asked = timed(lambda: (ledger.outbox.listed((), None, 50), ledger.outbox.counts()), rounds)
        command = [sys.executable, "-m", "twice", "effects", "list", "--project", str(folder)]
        listed = timed(lambda: subprocess.run(command, check=True, capture_output=True), rounds)
        ledger.close()
    return [
        Row(f"list and count, {EFFECTS:,} effects, of 1 s", asked, 1.0, 1.0),
        Row("twice effects list, the whole process, of 1 s", listed, 1.0, 1.0),
    ]


def declared(url: str) -> Project:
    effect = webhook(url, body=lambda result: {"slice": result.slice}, idempotency_key=True)
    declare = task("shop.revenue", scope=Daily("day", start="2026-01-01"), write=replace(), effects=[effect])
    return assemble("bench", [declare(revenue)])


def revenue() -> None:
    """Never called."""


def drained(url: str) -> float:
    project = declared(url)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"sqlite:///{folder}/ledger.db")
        labels = tuple(f"slice-{number}" for number in range(WEBHOOKS))
        held = ledger.claim(ClaimRequest("revenue", labels, "a", "run", "bench"), timedelta(minutes=5))
        assert isinstance(held, Claim)
        effect = project.tasks["revenue"].effects[0]
        named = tuple(
            prepare(ledger.owner.effect_owner("revenue"), "revenue", effect, PublishedGeneration(label, 1, "f"))
            for label in labels
        )
        ledger.advance(held, AttemptState.CLAIMED, AttemptState.PUBLISHING, Facts(effects=named))
        ledger.publish("a", Facts(version=1), generations=dict.fromkeys(labels, 1))
        senders = {"webhook": WebhookSender(Http(Allowed(("127.0.0.1",))))}
        post = Delivery(project, ledger, senders, SYSTEM_CLOCK, this_process(), lambda *_: ())
        render_released(post)
        began = time.perf_counter()
        assert drain(post) == WEBHOOKS
        took = time.perf_counter() - began
        ledger.close()
    return took


def one_by_one(url: str) -> float:
    began = time.perf_counter()
    for number in range(WEBHOOKS):
        body = json.dumps({"slice": f"slice-{number}"}).encode()
        assert httpcore.request("POST", url, content=body).status == 200
    return time.perf_counter() - began


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    rows = lists(options.rounds)
    with receiver() as url:
        rows.append(Row("1,000 webhooks, 8 in flight, of one after the other", drained(url), one_by_one(url), 1.0))
    report(rows, options.json)


if __name__ == "__main__":
    main()
