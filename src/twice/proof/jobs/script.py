"""Prove a script: run in copies of its warehouse, as a process of its own, twice, and killed at parts of its time."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.results.proof import Cause, Difference, Proof, SideEffect, Trial
from twice.engine.session.session import run_session
from twice.errors import UsageError, UserCodeError
from twice.lint.run import lint_text
from twice.lint.settings import LintSettings
from twice.proof.enclosure.enclosure import Enclosure, only_findings, with_findings
from twice.proof.jobs.sandbox import check_tables, check_written, copy_warehouse, differing
from twice.proof.play import NotApplicable, Observation, trial

PLACE = "{warehouse}"
VARIABLE = "TWICE_WAREHOUSE"
FRACTIONS = (0.5, 0.7, 0.85, 0.95)
"""A script that starts Spark spends the first half of its time on that, and writes at the end."""
_CAUSES = 3


@dataclass(frozen=True)
class Script:
    """`{warehouse}` in `arguments` becomes the folder of the copy; it is in the environment, too."""

    path: Path
    arguments: tuple[str, ...]
    tables: tuple[str, ...]
    warehouse: Path
    fractions: tuple[float, ...] = FRACTIONS
    limit: float = 1800.0

    def check(self) -> None:
        """Refuse what would write the user's own tables: a script that cannot know where its copy is."""
        check_tables(self.tables)
        if not self.path.is_file():
            raise UsageError(f"there is no script {self.path}", fix="Give the path of a Python file.")
        if not any(PLACE in argument for argument in self.arguments) and VARIABLE not in self.path.read_text():
            raise UsageError(
                "the script does not know where to write, so it would write your own tables",
                where=self.path.name,
                now="Nothing was run.",
                fix=f"Pass the warehouse as an argument, -- --warehouse {PLACE}, or let it read {VARIABLE}.",
            )


SCENARIOS = ("twice", "kill")


def prove_script(base: SparkSession, script: Script, enclosure: Enclosure | None = None) -> Proof:
    """Two scenarios: `twice`, and `kill` by a real SIGKILL to the script's whole process group, then run again. Your
    warehouse is only read. `base` is for comparing; the script starts its own Spark, in the same `enclosure`."""
    script.check()
    enclosure = enclosure or Enclosure()
    began, at = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.now()
    with tempfile.TemporaryDirectory(prefix="twice-proof-") as place:
        trials, beside = _played(ScriptProof(base, script, Path(place), enclosure))
    code, took = hashlib.sha256(script.path.read_bytes()).hexdigest()[:32], SYSTEM_CLOCK.monotonic() - began
    return Proof(script.path.stem, "script", code, at, trials, took, (), beside, enclosure.not_blocked)


@dataclass(frozen=True)
class ScriptProof:
    """One proof of a script. `folder` holds its copies of the warehouse."""

    base: SparkSession
    script: Script
    folder: Path
    enclosure: Enclosure

    def copy(self, source: Path, name: str) -> Path:
        to = self.folder / name
        copy_warehouse(source, to, self.enclosure.only_writable)
        return to

    def difference(self, clean: Path, where: Path) -> Difference | None:
        for _, found in differing(run_session(self.base), clean, where, self.script.tables):
            return replace(found, causes=_causes(self.script, found))
        return None


def _played(proof: ScriptProof) -> tuple[tuple[Trial, ...], tuple[SideEffect, ...]]:
    script, enclosure = proof.script, proof.enclosure
    clean = proof.copy(script.warehouse, "clean")
    enclosure.found()  # what an earlier proof's scenarios repeated is not this script's
    try:
        took = _run(script, clean)
    except UserCodeError as error:
        found = enclosure.behind(error)
        if not found:
            raise
        return only_findings(SCENARIOS, found), found
    found = enclosure.found()
    check_written(run_session(proof.base), clean, script.tables, "script", script.path.name)
    trials = (trial("twice", lambda: _twice(proof, clean)), trial("kill", lambda: _kill(proof, clean, took)))
    return with_findings(trials, found), found


def _twice(proof: ScriptProof, clean: Path) -> Observation:
    where = proof.copy(clean, "again")
    _run(proof.script, where)
    return Observation("run again", proof.difference(clean, where))


def _kill(proof: ScriptProof, clean: Path, took: float) -> Observation:
    script, killed = proof.script, list[str]()
    for number, fraction in enumerate(script.fractions):
        where = proof.copy(script.warehouse, f"killed{number}")
        if not _run_and_kill(script, where, took * fraction):
            continue
        killed.append(f"{fraction:.0%}")
        _run(script, where)
        found = proof.difference(clean, where)
        if found is not None:
            return Observation(f"killed at {killed[-1]} of the {took:.0f} s that one run took, then run again", found)
    if not killed:
        raise NotApplicable("it had always ended before it could be killed")
    return Observation(f"killed at {', '.join(killed)} of one run's time, then run again")


def _started(script: Script, where: Path, log: Path) -> subprocess.Popen[bytes]:
    arguments = [argument.replace(PLACE, str(where)) for argument in script.arguments]
    # What is there comes first: in an enclosure it is the hook that names what the script is refused.
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(script.path.parent), str(Path.cwd())]
    environment = {**os.environ, VARIABLE: str(where), "PYTHONPATH": os.pathsep.join(paths)}
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(script.path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # killed whole: Python and its JVM
        )


def _run(script: Script, where: Path) -> float:
    """One run to its end; how many seconds it took."""
    log = where.with_suffix(".log")
    began = time.monotonic()
    process = _started(script, where, log)
    try:
        code = process.wait(script.limit)
    except BaseException:
        _end(process)
        raise
    if code != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise UserCodeError(
            f"the script failed with exit code {code}: {lines[-1] if lines else 'it printed nothing'}",
            where=script.path.name,
            now="Your tables are unchanged: it ran in a copy.",
            fix="Run it by hand first. Only its warehouse is copied: what else it needs must be there already.",
        )
    return time.monotonic() - began


def _run_and_kill(script: Script, where: Path, after: float) -> bool:
    """Whether it was still running when it was killed."""
    process = _started(script, where, where.with_suffix(".log"))
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        return True
    finally:
        _end(process)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """The group is the script's own (`start_new_session`); it may have ended by itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _causes(script: Script, found: Difference) -> tuple[Cause, ...]:
    """A process of its own cannot be looked into: what lint reads in its source is the likely cause."""
    text = script.path.read_text()
    findings = [one for one in lint_text(script.path.name, text, LintSettings()) if one.severity != "info"]
    causes = [Cause(one.code, (), f"line {one.line}: {one.message}", one.fix) for one in findings[:_CAUSES]]
    if not causes:
        why = "rows are added on each run" if found.added and not found.missing else "another run gives other rows"
        fix = "twice lint finds nothing in it; to see its writes, call the job in process: twice.prove_job(job, …)."
        causes = [Cause("code", found.columns, why, fix)]
    return tuple(causes)
