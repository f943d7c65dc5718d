"""Proofs of jobs that do not use twice: no project is needed, only Spark and the folder of their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from twice.core.local_path import local_path
from twice.core.proof import Proof
from twice.wiring.prover import ProveJob, Prover, ProveScript, pickled_job


def prove_callable(
    job: Callable[[Any, Path], object], tables: Sequence[str], warehouse: Path, scenarios: Sequence[str]
) -> Proof:
    """In a process of its own that is closed in: the job is sent there, and a session is started there."""
    folder = Path(local_path(str(warehouse), "warehouse")).absolute()
    asked = ProveJob(pickled_job(job), tuple(tables), folder, tuple(scenarios))
    with closing(Prover(Path.cwd())) as prover:
        return prover.ask(asked)


def prove_file(path: Path, arguments: Sequence[str], tables: Sequence[str], warehouse: Path) -> Proof:
    from twice.proof.jobs.script import Script

    folder = Path(local_path(str(warehouse), "warehouse")).absolute()
    script = Script(path.absolute(), tuple(arguments), tuple(tables), folder)
    script.check()  # before a process is started for nothing
    with closing(Prover(Path.cwd())) as prover:
        return prover.ask(ProveScript(script.path, script.arguments, script.tables, script.warehouse))
