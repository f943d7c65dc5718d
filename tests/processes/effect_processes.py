"""Real processes that send effects and are really killed: `python -m tests.processes.effect_processes ROLE …`.

Children are forked here and not in pytest, whose process has threads. The receivers live in the caller's process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from twice import Daily, replace, task, webhook
from twice.core.failure.failpoints import Action, SendPoint, armed, kill_at
from twice.core.ledger.outbox import PublishedGeneration, prepare
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.project.project import Project, assemble
from twice.ledgers.ledger import Ledger
from twice.runtime.effects.delivery import Delivery, drain, render_released
from twice.runtime.holder import this_process
from twice.senders.address import Allowed
from twice.senders.http import Http
from twice.senders.webhook import WebhookSender

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Ahead:
    """The ledger's clock, hours on: what was refused or silent before is due now."""

    hours: int

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + timedelta(hours=self.hours)

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


def project(hook: str) -> Project:
    """One task that says each slice twice: to a receiver that knows keys, and to one that does not."""
    effects = [
        webhook(f"{hook}/keyed", body=lambda result: {"slice": result.slice}, idempotency_key=True, name="keyed"),
        webhook(f"{hook}/plain", body=lambda result: {"slice": result.slice}, name="plain"),
    ]
    declare = task("shop.revenue", scope=Daily("day", start="2026-01-01"), write=replace(), effects=effects)
    return assemble("p", [declare(revenue)])


def revenue() -> None:
    """Never called: its slices are published by hand."""


def publish(ledger: Ledger, declared: Project, *labels: str, names: tuple[str, ...] = ("keyed", "plain")) -> None:
    """The slices' publish on record, their effects released, as a run leaves them when it dies right after."""
    held = ledger.claim(ClaimRequest("revenue", labels, f"attempt-{labels[0]}", "run", "test"), MINUTE)
    assert isinstance(held, Claim)
    wanted = [effect for effect in declared.tasks["revenue"].effects if effect.name in names]
    named = tuple(
        prepare("p", "revenue", effect, PublishedGeneration(label, 1, "f")) for label in labels for effect in wanted
    )
    ledger.advance(held, AttemptState.CLAIMED, AttemptState.PUBLISHING, Facts(effects=named))
    ledger.publish(held.attempt, Facts(version=1), generations=dict.fromkeys(labels, 1))


def delivery_for(ledger: Ledger, declared: Project) -> Delivery:
    senders = {"webhook": WebhookSender(Http(Allowed(("127.0.0.1",)), seconds=5))}
    return Delivery(declared, ledger, senders, SYSTEM_CLOCK, this_process(), lambda *_: ())


def send(url: str, declared: Project) -> None:
    ledger = Ledger.open(url)
    delivery = delivery_for(ledger, declared)
    render_released(delivery)
    drain(delivery)
    ledger.close()


def send_all(url: str, declared: Project) -> None:
    """As someone who runs `effects send` every hour, until nothing is pending; while keys are remembered."""
    for hours in range(1, 20):
        ledger = Ledger.open(url, Ahead(hours))
        delivery = delivery_for(ledger, declared)
        render_released(delivery)
        drain(delivery)
        left = ledger.outbox.next_due(None)
        ledger.close()
        if left is None:
            return


def in_a_child(act: Callable[[], None]) -> bool:
    """Whether it was killed."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        act()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"a sender failed with {os.WEXITSTATUS(status)}")
    return os.WIFSIGNALED(status)


def armed_with(action: Action, act: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with armed(action):
            act()

    return run


def walk(url: str, hook: str) -> None:
    """One effect per point and kind, killed there, then sent by a process that lives; where it was killed."""
    declared, killed = project(hook), []
    for name in ("keyed", "plain"):
        for point in SendPoint:
            label = f"{name}-{point.value}"
            ledger = Ledger.open(url)
            publish(ledger, declared, label, names=(name,))
            ledger.close()
            if in_a_child(armed_with(kill_at(point), lambda: send(url, declared))):
                killed.append(label)
            in_a_child(lambda: send_all(url, declared))
    report(killed)


def crash_at_random(url: str, hook: str, wanted: str, seed: str) -> None:
    """Round after round until so many were killed: four slices are published, senders are killed at a random moment,
    the last one lives."""
    declared, choice, kills, number = project(hook), random.Random(int(seed)), 0, 0
    while kills < int(wanted):
        number += 1
        ledger = Ledger.open(url)
        publish(ledger, declared, *(f"{number:04d}-{slice_}" for slice_ in range(4)))
        ledger.close()
        crash = random_crash(choice)
        while in_a_child(armed_with(crash, lambda: send(url, declared))):
            kills += 1
            crash = random_crash(choice) if choice.random() < 0.3 else lambda _: None
        in_a_child(lambda: send_all(url, declared))
    report(kills)


def random_crash(choice: random.Random) -> Action:
    """At the n-th point that any thread passes, or after so many milliseconds, whatever happens then."""
    lock, left = threading.Lock(), choice.randint(1, 45)
    timer = choice.uniform(0.001, 0.08) if choice.random() < 0.4 else None

    def act(_: object) -> None:
        nonlocal left, timer
        with lock:
            if timer is not None:
                threading.Timer(timer, die).start()
                timer, left = None, -1
            left -= 1
            if left == 0:
                die()

    return act


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def drain_at_once(url: str, hook: str, start: str) -> None:
    """One of several processes that send the same outbox."""
    declared = project(hook)
    ledger = Ledger.open(url)
    delivery = delivery_for(ledger, declared)
    Path(f"{start}.{os.getpid()}").touch()
    while not Path(start).exists():
        time.sleep(0.001)
    report(drain(delivery))
    ledger.close()


def report(found: object) -> None:
    sys.stdout.write(json.dumps(found))


ROLES: dict[str, Callable[..., None]] = {
    "walk": walk,
    "crash_at_random": crash_at_random,
    "drain_at_once": drain_at_once,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
