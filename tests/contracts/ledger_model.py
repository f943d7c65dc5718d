"""Any sequence of calls leaves the ledger as a small model says. The model is all that the promises mean."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from tests.contracts.ledger_suite import CLOSINGS, HandClock

from twice.core.ledger.found import FoundPublish
from twice.core.ledger.record import AttemptState, Busy, Claim, ClaimRequest, Facts, SliceRecord
from twice.errors import LeaseLost, RunError
from twice.ledgers.ledger import Ledger

OPEN = [state for state in AttemptState if state.open]
TASKS = st.sampled_from(["t", "u"])
LABELS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
LEASES = st.integers(0, 20).map(lambda seconds: timedelta(seconds=seconds))
GENERATIONS = st.integers(0, 4)


@dataclass
class Tried:
    claim: Claim
    state: AttemptState = AttemptState.CLAIMED
    expected: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)


@dataclass
class Run:
    generation: int = 0
    attempt: str | None = None
    rows: int | None = None
    last: str | None = None


class LedgerMachine(RuleBasedStateMachine):
    """A test module says where a fresh ledger is: `url_in(folder)`."""

    held = Bundle("held")

    def url_in(self, folder: Path) -> str:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = HandClock()
        self.ledger = Ledger.open(self.url_in(Path(self.folder.name)), self.clock)
        self.tried: dict[str, Tried] = {}
        self.leases: dict[tuple[str, str], tuple[str, datetime]] = {}
        self.runs: dict[tuple[str, str], Run] = {}

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.folder.cleanup()

    @rule(seconds=st.integers(1, 15))
    def time_passes(self, seconds: int) -> None:
        self.clock.tick(seconds)

    @rule(target=held, task=TASKS, labels=LABELS, lease=LEASES)
    def claim(self, task: str, labels: list[str], lease: timedelta) -> str:
        attempt, now = f"attempt {len(self.tried)} of {self.clock.now()} {labels}", self.clock.now()
        found = self.ledger.claim(ClaimRequest(task, labels, attempt, "run", "h"), lease)
        taken = [label for label in labels if (task, label) in self.leases and self.leases[task, label][1] > now]
        if taken:
            holder, until = self.leases[task, taken[0]]
            assert found == Busy(taken[0], holder, "h", until)
            return holder
        assert isinstance(found, Claim)
        assert all(found.fence > other.claim.fence for other in self.tried.values())
        self.tried[attempt] = Tried(found)
        for label in labels:
            self.leases[task, label] = (attempt, now + lease)
            self.runs.setdefault((task, label), Run()).last = attempt
        return attempt

    @rule(attempt=held, lease=LEASES)
    def renew(self, attempt: str, lease: timedelta) -> None:
        claim = self.tried[attempt].claim
        keys = [(claim.task, label) for label in claim.labels]
        whole = all(self.leases.get(key, ("", None))[0] == attempt for key in keys)
        assert self.ledger.renew(claim, lease) == whole
        if whole:
            self.leases |= {key: (attempt, self.clock.now() + lease) for key in keys}

    @rule(attempt=held, generation=GENERATIONS)
    def fix(self, attempt: str, generation: int) -> None:
        tried = self.tried[attempt]
        wanted = dict.fromkeys(tried.claim.labels, generation)
        try:
            self.ledger.fix(tried.claim, wanted)
        except LeaseLost:
            assert not tried.state.open
        except RunError:
            assert tried.expected not in ({}, wanted)
        else:
            assert tried.state.open
            assert tried.expected in ({}, wanted)
            tried.expected = wanted

    @rule(attempt=held, before=st.sampled_from(OPEN), steps=st.integers(0, 1), rows=st.integers(0, 9))
    def advance(self, attempt: str, before: AttemptState, steps: int, rows: int) -> None:
        tried = self.tried[attempt]
        after = OPEN[min(OPEN.index(before) + steps, len(OPEN) - 1)]
        label = tried.claim.labels[0]
        try:
            self.ledger.advance(tried.claim, before, after, Facts(slices=(SliceRecord(label, rows=rows),)))
        except LeaseLost:
            assert tried.state is not before
        else:
            assert tried.state is before
            tried.state = after
            tried.rows[label] = rows

    @rule(attempt=held, state=st.sampled_from(CLOSINGS))
    def close(self, attempt: str, state: AttemptState) -> None:
        tried = self.tried[attempt]
        assert self.ledger.close_attempt(attempt, state) == tried.state.open
        if tried.state.open:
            tried.state = state
            self._release(attempt)

    @rule(attempt=held, generation=GENERATIONS)
    def publish(self, attempt: str, generation: int) -> None:
        tried = self.tried[attempt]
        self.ledger.publish(attempt, Facts(), generations=dict.fromkeys(tried.claim.labels, generation))
        if tried.state is AttemptState.PUBLISHED:
            return
        tried.state = AttemptState.PUBLISHED
        self._release(attempt)
        for label in tried.claim.labels:
            self._forward((tried.claim.task, label), generation, attempt, tried.rows.get(label))

    @rule(task=TASKS, label=st.sampled_from("abc"), generation=GENERATIONS)
    def record_found(self, task: str, label: str, generation: int) -> None:
        self.ledger.record_found(task, [FoundPublish(label, generation)])
        self._forward((task, label), generation, None, None)

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.url_in(Path(self.folder.name)), self.clock)

    @invariant()
    def ledger_is_as_the_model_says(self) -> None:
        if not hasattr(self, "ledger"):
            return
        seen = {(r.task, r.label): Run(r.generation, r.attempt, r.rows, r.last_attempt) for r in self.ledger.runs()}
        assert seen == self.runs
        expected_open = [name for name, tried in self.tried.items() if tried.state.open]
        assert [a.id for a in self.ledger.open_attempts()] == expected_open
        for name, tried in self.tried.items():
            record = self.ledger.attempt(name)
            assert record is not None
            assert record.state is tried.state
            assert {s.label: s.expected for s in record.slices if s.expected is not None} == tried.expected
            assert {s.label: s.rows for s in record.slices if s.rows is not None} == tried.rows
            own = [until for holder, until in self.leases.values() if holder == name]
            assert record.lease_until == (min(own) if len(own) == len(tried.claim.labels) else None)

    def _release(self, attempt: str) -> None:
        self.leases = {key: lease for key, lease in self.leases.items() if lease[0] != attempt}

    def _forward(self, key: tuple[str, str], generation: int, attempt: str | None, rows: int | None) -> None:
        run = self.runs.setdefault(key, Run(generation))
        if generation > run.generation:
            run.generation, run.attempt, run.rows = generation, attempt, rows
        elif generation == run.generation and (run.attempt in (None, attempt)):
            run.attempt = attempt if run.attempt is None else run.attempt
            run.rows = rows if run.rows is None else run.rows


LONG = settings(max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
SETTINGS = settings(LONG, max_examples=8)
