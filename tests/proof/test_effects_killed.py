"""Senders really killed, receivers really there: with a key acted on once, without at most once, never lost unseen."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes.command import ROOT, command
from tests.processes.effect_processes import delivery_for, project, publish
from tests.proof.effect_checks import Crashed, crash_rounds, judge, play
from tests.receivers import HttpReceiver
from tests.sample import sample

from twice.core.failure.failpoints import SendPoint
from twice.core.ledger.outbox import EffectState
from twice.ledgers.ledger import Ledger
from twice.runtime.effects.delivery import IN_FLIGHT, drain, render_released

pytestmark = pytest.mark.timeout(300)  # real processes, on whatever machine there is

S = EffectState
P = SendPoint


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder that outlives a process and not the machine: a SIGKILL asks no more of a disk."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="twice-", dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, memory: Path) -> str:
    return f"sqlite:///{memory}/ledger.db" if request.param == "sqlite" else request.getfixturevalue("database")


@pytest.mark.kill
def test_killed_before_and_after_each_step_the_receiver_acts_once_or_it_is_in_doubt(url: str) -> None:
    with HttpReceiver().running() as receiver:
        killed = play("walk", url, receiver.url(""))
        assert killed == [f"{name}-{point.value}" for name in ("keyed", "plain") for point in SendPoint]
        assert judge(url, receiver, Crashed(len(killed))).violations == []
    ledger = Ledger.open(url)
    states = {effect.label: effect.state for effect in ledger.outbox.listed((), None, 100)}
    ledger.close()
    in_doubt = {f"plain-{point.value}" for point in (P.SENDING, P.LEAVING, P.ANSWERED)}
    assert {label for label, state in states.items() if state is S.IN_DOUBT} == in_doubt
    assert {state for label, state in states.items() if label not in in_doubt} == {S.SENT}
    plain = [one.body.decode() for one in receiver.arrivals if one.path == "/plain"]
    assert '{"slice": "plain-answered"}' in plain
    assert '{"slice": "plain-leaving"}' not in plain


@pytest.mark.kill
@pytest.mark.parametrize("kills", sample([20, 60], of=[20]))
def test_random_crashes_break_nothing_and_really_hit(memory: Path, kills: int) -> None:
    found = crash_rounds(f"sqlite:///{memory}/ledger.db", kills=kills, seed=8)
    assert found.violations == []
    assert found.kills >= kills
    assert found.counts["plain in_doubt"] > 0, "the fault was hit"
    assert found.counts["keyed requests"] > found.counts["keyed sent"], "keys were used again"


def test_processes_that_send_one_outbox_send_each_effect_once(url: str, tmp_path: Path) -> None:
    with HttpReceiver().running() as receiver:
        declared = project(receiver.url(""))
        ledger = Ledger.open(url)
        publish(ledger, declared, *(f"slice-{number}" for number in range(40)))
        render_released(delivery_for(ledger, declared))
        ledger.close()
        start = tmp_path / "start"
        sender = command("effect_processes", "drain_at_once", url, receiver.url(""), start)
        running = [subprocess.Popen(sender, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("start.*"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        start.touch()
        tries = [int(process.communicate(timeout=100)[0]) for process in running]
        assert judge(url, receiver, Crashed(0)).violations == []
    assert sum(tries) == 80
    assert len(receiver.arrivals) == 80


@pytest.mark.parametrize("slices", sample([60, 500], of=[60]))
def test_webhooks_are_drained_with_eight_in_flight(memory: Path, slices: int) -> None:
    receiver = HttpReceiver(together=IN_FLIGHT)
    with receiver.running():
        declared = project(receiver.url(""))
        ledger = Ledger.open(f"sqlite:///{memory}/ledger.db")
        publish(ledger, declared, *(f"slice-{number}" for number in range(slices)))
        delivery = delivery_for(ledger, declared)
        render_released(delivery)
        assert drain(delivery) == 2 * slices
        counts = ledger.outbox.counts()
        ledger.close()
    assert counts == {S.SENT: 2 * slices}
    assert len(receiver.arrivals) == 2 * slices
    assert receiver.most_at_once == IN_FLIGHT
