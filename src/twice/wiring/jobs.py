"""Proofs of jobs that do not use twice: no project is needed, only Spark and the folder of their tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twice.core.proof import Proof


def prove_callable(
    job: Callable[[Any, Path], object], tables: Sequence[str], warehouse: Path, scenarios: Sequence[str]
) -> Proof:
    from twice.proof.job import prove_job

    return prove_job(_session(), job, tables, warehouse, scenarios)


def prove_file(path: Path, arguments: Sequence[str], tables: Sequence[str], warehouse: Path) -> Proof:
    from twice.proof.script import Script, prove_script

    script = Script(path, tuple(arguments), tuple(tables), warehouse)
    script.check()  # before a session is started for nothing
    return prove_script(_session(), script)


def _session() -> Any:
    """The one that is running, or an embedded one with its files in a temporary folder."""
    from twice.engine.session import SessionSettings, embedded, existing

    found = existing()
    if found is not None:
        return found
    folder = Path(tempfile.mkdtemp(prefix="twice-spark-"))
    return embedded(SessionSettings(folder, folder / "warehouse", short_jobs=True))
