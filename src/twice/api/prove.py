"""`prove` and `prove_job` in Python."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twice.api import arguments
from twice.api.boundary import verb
from twice.core.results.proof import Proof
from twice.core.task import Task
from twice.errors import UsageError
from twice.project import prove as proofs
from twice.project.task_argument import declared_as
from twice.wiring import open_project as opening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@verb
def prove(
    task: Task | str | Callable[[SparkSession, Path], object],
    *,
    date: str | datetime.date | None = None,
    scenarios: Sequence[str] = (),
    project: str | Path = ".",
    profile: str | None = None,
    tables: Sequence[str] | None = None,
    warehouse: str | Path = "warehouse",
) -> Proof:
    """Run one slice of a task twice, crash it, shuffle it, in a scratch copy: is its table that of one clean run?

    `scenarios`: only these. Nothing of the project is written but its ledger, which remembers the proof. `tables` and
    `warehouse` are deprecated: a job that does not use twice is proved by `prove_job`.
    """
    if not isinstance(task, Task | str):
        warnings.warn("twice.prove(job, tables=…) is now twice.prove_job(job, tables=…)", DeprecationWarning, 3)
        return prove_job(task, tables=tables or (), warehouse=warehouse, scenarios=scenarios)
    if tables is not None:
        raise UsageError("tables= is for a job that does not use twice", fix="Leave it out, or call prove_job.")
    wanted = arguments.several("scenarios", scenarios)
    with opening.open_project(Path(project), profile) as opened:
        return proofs.prove(opened, declared_as(opened, task), arguments.label(date), wanted)


@verb
def prove_job(
    job: Callable[[SparkSession, Path], object],
    *,
    tables: Sequence[str],
    warehouse: str | Path = "warehouse",
    scenarios: Sequence[str] = (),
) -> Proof:
    """Prove a PySpark job that does not use twice. `job` is called several times with a session and the folder of a
    copy of `warehouse`: it must read and write there. `tables` are what it writes, compared after each time."""
    written, wanted = arguments.several("tables", tables), arguments.several("scenarios", scenarios)
    return proofs.prove_job(job, written, Path(warehouse), wanted)
