"""The same slice, computed weeks later: Python's clock is moved; what reads the JVM's clock is found in the plan."""

from __future__ import annotations

import datetime as real
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from twice.core.results.proof import Difference
from twice.proof.blame import blame
from twice.proof.play import Observation
from twice.proof.tasks.session import Clean, ProofSession

LATER = real.timedelta(days=40)
"""Another day, another month."""
_CLOCKS = frozenset({"current_timestamp", "localtimestamp", "current_date", "current_time"})


def later(proof_session: ProofSession, clean: Clean) -> Observation:
    reason = (
        f"Python's clock moved by {LATER.days} days (the JVM's is not: its clock expressions are read from the plan)"
    )
    with proof_session.copy() as copy:
        with moved(proof_session.setup.context.root, proof_session.task.function.__globals__):
            copy.run(proof_session.slices)
        found = proof_session.difference(clean, copy)
    clocks = [
        one for one in proof_session.likely if one.name in _CLOCKS and one.name not in proof_session.task.policy.allow
    ]
    if found is None and clocks:
        columns = tuple(dict.fromkeys(name for one in clocks for name in one.columns))
        reached = Difference(tuple(name for name in columns if name in _names(proof_session, clean)), 0, 0)
        found = Difference(reached.columns, 0, 0, causes=blame(reached, clocks))
    return Observation(reason, found)


def _names(proof_session: ProofSession, clean: Clean) -> list[str]:
    return clean.copy.rows(proof_session.session, clean.version).columns


class _Date(real.date):
    @classmethod
    def today(cls) -> real.date:  # type: ignore[override]
        return real.date.today() + LATER


class _Datetime(real.datetime):
    @classmethod
    def now(cls, tz: real.tzinfo | None = None) -> real.datetime:  # type: ignore[override]
        return real.datetime.now(tz) + LATER

    @classmethod
    def today(cls) -> real.datetime:  # type: ignore[override]
        return real.datetime.today() + LATER

    @classmethod
    def utcnow(cls) -> real.datetime:  # type: ignore[override]
        return real.datetime.now(real.timezone.utc).replace(tzinfo=None) + LATER


@contextmanager
def moved(root: Path, also: dict[str, Any]) -> Iterator[None]:
    """In the modules of the project, `datetime`, `date` and `time` are ahead by LATER."""
    namespaces = [also, *(vars(module) for module in list(sys.modules.values()) if _below(module, root))]
    before = [
        (namespace, name, value)
        for namespace in namespaces
        for name, value in list(namespace.items())
        if _shifted_clock(value)
    ]
    for namespace, name, value in before:
        namespace[name] = _shifted_clock(value)
    try:
        yield
    finally:
        for namespace, name, value in before:
            namespace[name] = value


def _shifted_clock(value: Any) -> Any:
    """A clock that is ahead, for a clock; None for anything else."""
    if value is real.datetime:
        return _Datetime
    if value is real.date:
        return _Date
    if value is real:
        return SimpleNamespace(**{**vars(real), "datetime": _Datetime, "date": _Date})
    if value is time:
        return SimpleNamespace(**{**vars(time), "time": lambda: time.time() + LATER.total_seconds()})
    return None


def _below(module: ModuleType | None, root: Path) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and Path(str(file)).is_relative_to(root.absolute()) and "site-packages" not in str(file)
