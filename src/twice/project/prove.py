"""Proofs: of a task of an opened project; of a job or a script that does not use twice, which need no project.

Each is made in a process of its own that is closed in (`proof.process`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from twice.core.names.local_path import local_path
from twice.core.ports import SILENT, Progress
from twice.core.results.proof import Proof
from twice.core.scope import slice_named
from twice.core.task import Task
from twice.errors import InputMissing
from twice.proof.process.prover import pickled_job
from twice.proof.process.request import ProveJob, ProveScript, ProveTask
from twice.wiring.open_project import OpenProject, prover_of


def prove(opened: OpenProject, task: str, date: str | None, scenarios: Sequence[str] = ()) -> Proof:
    """Play the scenarios with one slice, in a scratch copy. Of the project only its ledger is written, by this
    process."""
    declared = opened.project.task(task)
    slice_named(declared.scope, date)  # before a process is started for nothing
    copies = _copied_inputs(opened, declared, opened.prover.fresh_folder())
    asked = ProveTask(opened.settings.root, opened.settings.profile, declared.name, date, tuple(scenarios), copies)
    proof = opened.prover.ask(asked, opened.progress)
    opened.progress.begins("recording the proof", declared.name)
    opened.ledger.record_proof(proof)
    return proof


def prove_job(
    job: Callable[[Any, Path], object], tables: Sequence[str], warehouse: Path, scenarios: Sequence[str]
) -> Proof:
    """The job is sent to the other process, and a session is started there."""
    folder = Path(local_path(str(warehouse), "warehouse")).absolute()
    asked = ProveJob(pickled_job(job), tuple(tables), folder, tuple(scenarios))
    with closing(prover_of(Path.cwd())) as prover:
        return prover.ask(asked)


def prove_script(
    path: Path, arguments: Sequence[str], tables: Sequence[str], warehouse: Path, progress: Progress = SILENT
) -> Proof:
    from twice.proof.jobs.script import Script

    folder = Path(local_path(str(warehouse), "warehouse")).absolute()
    script = Script(path.absolute(), tuple(arguments), tuple(tables), folder)
    script.check()  # before a process is started for nothing
    with closing(prover_of(Path.cwd())) as prover:
        return prover.ask(ProveScript(script.path, script.arguments, script.tables, script.warehouse), progress)


def _copied_inputs(opened: OpenProject, task: Task, to: Path) -> dict[str, str]:
    """The Delta copy of each input that is on a server, by the table's name: the process of a proof can reach no
    server. Read in one snapshot of each server, whole; dying here leaves a scratch folder. Delta tables are read where
    they are, and need no session here."""
    if opened.targets.folder(task.target) is None:
        return {}  # the proof itself says that such a target cannot be proved yet
    wanted = {str(each.table): each.table for each in task.tables.values() if opened.targets.folder(each.table) is None}
    if not wanted:
        return {}
    with opened.context.session() as session:
        for name, table in wanted.items():
            opened.progress.begins("copying an input for the proof", name)
            target = opened.targets.of(table, session)
            if target.published(table, ()).version is None:
                raise InputMissing(f"the input table {name} does not exist", where=task.name)
            target.read(table).write.format("delta").save(str(to / name))
    return {name: str(to / name) for name in wanted}
