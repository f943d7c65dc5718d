"""What a run needs at hand, put together by wiring and passed in."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from twice.core.ports import Clock, Engine, RunLedger, Sender, Target
from twice.core.project.project import Project
from twice.core.task import TableName, Task


@dataclass(frozen=True)
class RunContext:
    """`root` is the project's folder; `holder` names this process to others; `target_of` binds a table's target
    to one run's session, `release_session` ends what it holds open for that; `pause` waits that many seconds and
    `draw` is uniform in [0, 1), for retries; `senders` by kind of effect; `sends`: effects go out as soon as they
    may."""

    project: Project
    ledger: RunLedger
    engine: Engine
    target_of: Callable[[TableName, Any], Target]
    code_hash: Callable[[Task], str]
    clock: Clock
    holder: str
    root: Path = Path()
    lease: timedelta = timedelta(minutes=5)
    pause: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random
    senders: Mapping[str, Sender] = field(default_factory=dict)
    sends: bool = True
    release_session: Callable[[Any], None] = lambda _session: None

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session for one run. What targets hold open for it is released at its end; nothing rests on that, so it
        takes no run's result away and hides no error."""
        session = self.engine.fresh()
        try:
            yield session
        finally:
            with suppress(Exception):
                self.release_session(session)


@dataclass
class Trace:
    """How long each step of one run took, in the order they were taken."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - started
