"""What must hold of an outbox and its receiver after senders were killed, and the rounds of killing them."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.processes.command import ROOT, command
from tests.receivers import HttpReceiver

from twice.core.ledger.outbox import EffectState
from twice.ledgers.ledger import Ledger


@dataclass
class Moody:
    """A receiver's plans: mostly well, sometimes it acts and hangs up, fails, or asks to be left alone."""

    choice: random.Random

    def popleft(self) -> Any:
        return self.choice.choices(["ok", "reset", 500, (429, {"Retry-After": "0"}, "")], [85, 5, 5, 5])[0]

    def __bool__(self) -> bool:
        return True


@dataclass
class Crashed:
    """How the rounds ended. A violation is text that says what is wrong."""

    kills: int
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def play(role: str, url: str, *arguments: str, timeout: float = 280) -> Any:
    """Run one role of the script to its end."""
    sender = command("effect_processes", role, url, *arguments)
    done = subprocess.run(sender, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def crash_rounds(url: str, kills: int, seed: int, timeout: float = 280) -> Crashed:
    receiver = HttpReceiver()
    receiver.plans = Moody(random.Random(seed))  # type: ignore[assignment]
    Ledger.open(url).close()
    with receiver.running():
        killed = play("crash_at_random", url, receiver.url(""), str(kills), str(seed), timeout=timeout)
    return judge(url, receiver, Crashed(killed))


def judge(url: str, receiver: HttpReceiver, found: Crashed) -> Crashed:
    """With a key: acted on exactly once, every try the same bytes. Without: at most once, and every one that is not
    known to be sent is in doubt. None lost, none silent."""
    ledger = Ledger.open(url)
    effects = ledger.outbox.listed((), None, 1_000_000)
    ledger.close()
    for effect in effects:
        body = f'{{"slice": "{effect.label}"}}'
        arrived = [one for one in receiver.arrivals if one.path == f"/{effect.name}" and one.body.decode() == body]
        acted = sum(one.acted for one in arrived)
        found.counts[f"{effect.name} {effect.state.value}"] += 1
        found.counts[f"{effect.name} requests"] += len(arrived)
        where = f"{effect.label} {effect.name}: {effect.state.value}, {len(arrived)} requests, acted on {acted} times"
        if effect.keyed:
            wrong = effect.state is not EffectState.SENT or acted != 1 or {one.key for one in arrived} != {effect.key}
        elif effect.state is EffectState.SENT:
            wrong = acted != 1
        else:
            wrong = effect.state is not EffectState.IN_DOUBT or acted > 1
        if wrong:
            found.violations.append(where)
    other_owners = {(one.path, one.body) for one in receiver.arrivals} - {
        (f"/{effect.name}", f'{{"slice": "{effect.label}"}}'.encode()) for effect in effects
    }
    found.violations += [f"arrived without an effect: {stranger}" for stranger in sorted(other_owners)]
    return found
