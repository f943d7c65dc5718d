"""What a run needs at hand, put together by wiring and passed in."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from twice.core.failure import stopping
from twice.core.ledger.code_parts import CodeParts, TaskCode
from twice.core.ports import SILENT, Clock, Engine, Progress, RunLedger, Sender, Target, unfailing
from twice.core.project.project import Project
from twice.core.results.summary import run_label
from twice.core.slice import Slice
from twice.core.task import TableName, Task
from twice.runtime.inputs.places import Places


@dataclass(frozen=True)
class RunContext:
    """`root` is the project's folder, `roots` are others that files may be read from, `environment` the variables that
    params may ask for; `recipe` is the hash of all that a task's function makes its plan of, beside its inputs, where
    that is known; `holder` names this process to others; `target_of` binds a table's target
    to one run's session, `release_session` ends what it holds open for that; `pause` waits that many seconds and
    `draw` is uniform in [0, 1), for retries; `senders` by kind of effect; `sends`: effects go out as soon as they
    may; `progress` hears what is being done; `code_parts`: what a task's code is made of, for people."""

    project: Project
    ledger: RunLedger
    engine: Engine
    target_of: Callable[[TableName, Any], Target]
    code_hash: Callable[[Task], str]
    clock: Clock
    holder: str
    root: Path = Path()
    lease: timedelta = timedelta(minutes=5)
    pause: Callable[[float], None] = stopping.pause
    draw: Callable[[], float] = random.random
    senders: Mapping[str, Sender] = field(default_factory=dict)
    sends: bool = True
    release_session: Callable[[Any], None] = lambda _session: None
    roots: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    recipe: Callable[[Task], str | None] = lambda _task: None
    progress: Progress = SILENT
    code_parts: Callable[[Task], CodeParts] = lambda _task: {}

    def __post_init__(self) -> None:
        object.__setattr__(self, "progress", unfailing(self.progress))

    @property
    def places(self) -> Places:
        """Where declared files and values are found."""
        return Places(self.root, self.roots, self.environment)

    def code_of(self, task: Task) -> TaskCode:
        """As it is now."""
        return TaskCode(self.code_hash(task), lambda: self.code_parts(task))

    def trace(self, task: Task, slices: Sequence[Slice]) -> Trace:
        """Of one attempt at these slices; its steps are progress."""
        return Trace(self.clock, run_label(task.name, [slice_.label for slice_ in slices]), self.progress)

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
    """How long each step of one run took, in the order they were taken; `where` is the task with its slices. A thread
    that was asked to stop takes no further step."""

    clock: Clock
    where: str = ""
    progress: Progress = SILENT
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        stopping.check()
        self.progress.begins(name, self.where)
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - started
