"""Real processes for the ledger suite, started as
`python -m tests.processes.ledger_processes ROLE URL …`. Prints JSON.

A crash is a real SIGKILL before the n-th statement, or before the commit, of one ledger call. Children are forked
here and not in pytest, whose process may have threads.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from twice.core.audit import AuditResult
from twice.core.ledger.record import AttemptState, Claim, ClaimRequest, Facts, InputRecord, SliceRecord
from twice.core.table.token import Intention
from twice.ledgers.database.connect import connect, for_writing, parse_url
from twice.ledgers.database.migrate import upgrade
from twice.ledgers.ledger import Ledger

MINUTE = timedelta(minutes=1)
FACTS = Facts(
    slices=(SliceRecord("a", intention=Intention("code", "in"), rows=3, fingerprint="f"), SliceRecord("b", rows=4)),
    inputs=(InputRecord("a", "delta", "shop.orders", "id", 7),),
    audits=(AuditResult("rows", "error", True, "7 rows"),),
    why="never published",
    version=9,
    notes=("a note",),
    seconds={"stage": 1.5},
)


def claimed(ledger: Ledger, attempt: str, task: str, labels: tuple[str, ...] = ("a", "b")) -> Claim:
    found = ledger.claim(ClaimRequest(task, labels, attempt, "run", "crash"), MINUTE)
    assert isinstance(found, Claim)
    return found


def state(ledger: Ledger, task: str) -> dict[str, Any]:
    """Everything a reader can see of a task, as data, without times and ids."""
    attempts = [
        [a.state.value, a.lease_until is not None, len(a.slices), len(a.inputs), len(a.audits), a.why, a.discarded]
        for a in ledger.attempts(task)
    ]
    runs = [[r.label, r.generation, r.rows, r.fingerprint, r.version, r.last_state] for r in ledger.runs(task)]
    return {
        "attempts": attempts,
        "runs": runs,
        "fixed": [[s.expected for s in a.slices] for a in ledger.attempts(task)],
    }


def _claim(ledger: Ledger, task: str, attempt: str) -> Callable[[], object]:
    return lambda: claimed(ledger, attempt, task)


def _fix(ledger: Ledger, task: str, attempt: str) -> Callable[[], object]:
    claim = claimed(ledger, attempt, task)
    return lambda: ledger.fix(claim, {"a": 4, "b": 5})


def _advance(ledger: Ledger, task: str, attempt: str) -> Callable[[], object]:
    claim = claimed(ledger, attempt, task)
    return lambda: ledger.advance(claim, AttemptState.CLAIMED, AttemptState.STAGED, FACTS)


def _publish(ledger: Ledger, task: str, attempt: str) -> Callable[[], object]:
    claimed(ledger, attempt, task)
    return lambda: ledger.publish(attempt, FACTS, generations={"a": 1, "b": 1})


def _close(ledger: Ledger, task: str, attempt: str) -> Callable[[], object]:
    claimed(ledger, attempt, task)
    return lambda: ledger.close_attempt(attempt, AttemptState.FAILED, FACTS)


def _rename(ledger: Ledger, task: str, attempt: str) -> Callable[[], object]:
    claimed(ledger, attempt, f"{task}_old")
    claimed(ledger, f"{attempt}_other", task, ("b", "c"))
    return lambda: ledger.rename(f"{task}_old", task)


CALLS = {"claim": _claim, "fix": _fix, "advance": _advance, "publish": _publish, "close": _close, "rename": _rename}


def kill_before(step: int) -> None:
    """Die by SIGKILL before the step-th statement or commit of any engine of this process."""
    left = step

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)


def crash_everywhere(url: str, call: str) -> None:
    """Before each crash the task is set up afresh under its own name; after it, a new process looks."""
    ledger = Ledger.open(url)
    seen: dict[str, Any] = {"crashed": [], "after": None, "before": None}
    for step in range(1, 200):
        task, attempt = f"{call}_{step}", f"{call}-{step}"
        ledger.close()
        pid = os.fork()
        if pid == 0:
            own = Ledger.open(url)
            act = CALLS[call](own, task, attempt)
            if step == 1:
                Path(os.environ["BEFORE"]).write_text(json.dumps(state(own, task)), encoding="utf-8")
            kill_before(step)
            act()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        ledger = Ledger.open(url)
        if os.WIFSIGNALED(status):
            seen["crashed"].append(state(ledger, task))
            continue
        seen["after"] = state(ledger, task)
        break
    ledger.close()
    seen["before"] = json.loads(Path(os.environ["BEFORE"]).read_text(encoding="utf-8"))
    report(seen)


def crash_while_opening(url_of_step: str, version: str, every: str) -> None:
    """A ledger of an older version (or none yet) per step, killed while it is made or migrated, then opened again."""
    crashes, step = 0, 1 - int(every)
    while True:
        step += int(every)
        url = url_of_step.replace("{step}", str(step))
        put_old_ledger(url, version)
        pid = os.fork()
        if pid == 0:
            kill_before(step)
            Ledger.open(url).close()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        ledger = Ledger.open(url)
        found = claimed(ledger, "after", "task")
        if version != "nothing":
            assert found.fence == 2, found
            kept = [row for row in ledger.export() if row.get("task") == "old task"]
            assert [row["id"] for row in kept if row["table"] == "attempts"] == ["before"]
            runs = [(row["label"], row["generation"], row["last_fence"]) for row in kept if row["table"] == "runs"]
            assert runs == [("ä", 7, 1)]
        ledger.close()
        if not os.WIFSIGNALED(status):
            break
        crashes += 1
    report({"crashes": crashes})


def put_old_ledger(url: str, version: str) -> None:
    """By the migrations of that day, with one published run in it, written as that day's code wrote it."""
    engine = connect(parse_url(url))
    with for_writing(engine).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        if version != "nothing":
            upgrade(connection, version)
            connection.exec_driver_sql(
                "INSERT INTO twice_attempts (id, task, kind, state, holder, started, discarded) "
                "VALUES ('before', 'old task', 'run', 'published', 'host', '2026-06-09T12:00:00.000000+00:00', false)"
            )
            connection.exec_driver_sql("INSERT INTO twice_slices (fence, label, task) VALUES (1, 'ä', 'old task')")
            connection.exec_driver_sql(
                "INSERT INTO twice_runs (task, label, generation, attempt, last_fence) "
                "VALUES ('old task', 'ä', 7, 'before', 1)"
            )
    engine.dispose()


def open_at_once(url: str, start: str) -> None:
    _wait_for(start)
    ledger = Ledger.open(url)
    found = claimed(ledger, f"opened-by-{os.getpid()}", f"task_{os.getpid()}")
    ledger.close()
    report({"fence": found.fence})


def race(url: str, start: str, slices: str) -> None:
    """Claim pairs of neighbouring slices, in this process's own order; keep what is won."""
    ledger = Ledger.open(url)
    count, won = int(slices), []
    order = sorted(range(count), key=lambda n: (n * (os.getpid() | 1)) % count)
    _wait_for(start)
    for number in order:
        labels = [f"{number:04d}", f"{(number + 1) % count:04d}"]
        if os.getpid() % 2:
            labels.reverse()
        attempt = f"{os.getpid()}-{number}"
        found = ledger.claim(ClaimRequest("race", labels, attempt, "run", str(os.getpid())), MINUTE)
        if isinstance(found, Claim):
            won.append([found.fence, *found.labels])
    ledger.close()
    report(won)


def take_over(url: str, start: str, rounds: str) -> None:
    """Claim one slice again and again with a lease that is over at once."""
    ledger = Ledger.open(url)
    _wait_for(start)
    fences = []
    for number in range(int(rounds)):
        attempt = f"{os.getpid()}-{number}"
        found = ledger.claim(ClaimRequest("over", ["all"], attempt, "run", str(os.getpid())), timedelta(0))
        if isinstance(found, Claim):
            fences.append(found.fence)
    ledger.close()
    report(fences)


def claim_and_release(url: str, start: str, rounds: str) -> None:
    """Hold one slice again and again, and say when; a busy one is asked for again at once."""
    ledger = Ledger.open(url)
    _wait_for(start)
    spans, tries = list[list[float]](), 0
    while len(spans) < int(rounds):
        tries += 1
        attempt = f"{os.getpid()}-{tries}"
        found = ledger.claim(ClaimRequest("turn", ["all"], attempt, "run", str(os.getpid())), MINUTE)
        if isinstance(found, Claim):
            began = time.monotonic()
            ledger.advance(found, AttemptState.CLAIMED, AttemptState.STAGED)
            ended = time.monotonic()
            ledger.publish(attempt, Facts(), generations={"all": found.fence})
            spans.append([began, ended])
    ledger.close()
    report(spans)


def settle_at_once(url: str, start: str, attempts: str) -> None:
    """Close every attempt; how many times this process was the one that did."""
    ledger = Ledger.open(url)
    _wait_for(start)
    closed = [a for a in attempts.split(",") if ledger.close_attempt(a, AttemptState.ABANDONED)]
    ledger.close()
    report(closed)


def take_effects(url: str, start: str) -> None:
    """Begin to send every effect that is due; which ones this process got."""
    ledger = Ledger.open(url)
    due = ledger.outbox.due(None, 1000)
    _wait_for(start)
    begun = [effect.id for effect in due if ledger.outbox.begin(effect, str(os.getpid()), MINUTE)]
    ledger.close()
    report(begun)


def report(found: object) -> None:
    sys.stdout.write(json.dumps(found))


def _wait_for(start: str) -> None:
    # Say that we are here, then wait for the word.
    Path(f"{start}.{os.getpid()}").touch()
    while not Path(start).exists():
        time.sleep(0.001)


ROLES: dict[str, Callable[..., None]] = {
    "crash_everywhere": crash_everywhere,
    "crash_while_opening": crash_while_opening,
    "open_at_once": open_at_once,
    "race": race,
    "take_over": take_over,
    "claim_and_release": claim_and_release,
    "settle_at_once": settle_at_once,
    "take_effects": take_effects,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
