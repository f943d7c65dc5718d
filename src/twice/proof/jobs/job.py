"""Prove a job that does not use twice: run it in copies of its warehouse, disturbed, and compare its tables."""

from __future__ import annotations

import hashlib
import inspect
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from twice.core.failure.failpoints import Crash
from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.results.proof import Difference, Proof, Scenario, SideEffect, Trial
from twice.engine.frames.compare import compare
from twice.engine.session.session import run_session
from twice.errors import UserCodeError
from twice.proof.disturb import hidden, ordered, settings, spread
from twice.proof.effect_counts import compare_effects
from twice.proof.enclosure.enclosure import Enclosure, only_findings, with_findings
from twice.proof.jobs.recorder import Recorder
from twice.proof.jobs.sandbox import check_tables, check_written, copy_warehouse, differing, partitions_of, rows_of
from twice.proof.jobs.write import Write, blame_writes, overlooked, vanished
from twice.proof.play import NotApplicable, Observation, choose, trial
from twice.proof.reads import DisturbedReads

Job = Callable[[SparkSession, Path], object]
MOST_CRASHES = 12


@dataclass
class JobProof:
    """One proof of a job. Its scratch copies are copies of `warehouse`, gone at the end."""

    base: SparkSession
    job: Job
    warehouse: Path
    tables: tuple[str, ...]
    folder: Path
    enclosure: Enclosure
    made: int = 0

    def copy(self) -> Path:
        self.made += 1
        to = self.folder / f"copy{self.made}"
        copy_warehouse(self.warehouse, to, self.enclosure.only_writable)
        return to

    def run(self, where: Path, recorder: Recorder, conf: dict[str, str] | None = None) -> bool:
        """Whether it came to its end. Dying where the recorder ends it leaves the copy as a dead process would."""
        session = run_session(self.base)
        for name, value in (conf or {}).items():
            session.conf.set(name, value)
        try:
            with recorder.watching():
                call_job(self.job, session, where)
        except Crash:
            return False
        return True


def call_job(job: Job, session: SparkSession, where: Path) -> None:
    """Call the user's job. One that exits must not take the process of the proof with it, which would look as if that
    had died."""
    try:
        job(session, where)
    except SystemExit as error:
        raise UserCodeError(
            f"the job raised SystemExit: {error}",
            now="Your tables are unchanged: it ran in a copy.",
            fix="Leave out sys.exit(): return where the job has ended well, or raise an error.",
        ) from error


@dataclass(frozen=True)
class CleanJob:
    where: Path
    writes: tuple[Write, ...]
    calls: Counter[str]


def prove_job(
    base: SparkSession,
    job: Job,
    tables: Sequence[str],
    warehouse: Path,
    scenarios: Sequence[str] = (),
    enclosure: Enclosure | None = None,
) -> Proof:
    """`job` is called with a session and the folder of a warehouse: a copy of yours, which is only read. A request to
    a receiver on this machine goes to a placeholder and is counted; any other call is refused, by the `enclosure`."""
    check_jobs_scenarios(tables, scenarios)
    chosen, enclosure = _chosen(scenarios), enclosure or Enclosure()
    began, at = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.now()
    with tempfile.TemporaryDirectory(prefix="twice-proof-") as place:
        proof = JobProof(base, job, warehouse, tuple(tables), Path(place), enclosure)
        trials, beside = _played(proof, chosen)
    name, took = getattr(job, "__name__", "job"), SYSTEM_CLOCK.monotonic() - began
    return Proof(name, "job", _hash(job), at, trials, took, (), beside, enclosure.not_blocked)


def check_jobs_scenarios(tables: Sequence[str], scenarios: Sequence[str]) -> None:
    check_tables(tables)
    _chosen(scenarios)


def _played(proof: JobProof, chosen: Sequence[str]) -> tuple[tuple[Trial, ...], tuple[SideEffect, ...]]:
    proof.enclosure.found()  # what an earlier proof's scenarios repeated is not this job's
    try:
        clean = _clean(proof)
    except Exception as error:
        found = proof.enclosure.behind(error)
        if not found:
            raise
        return only_findings(chosen, found), found
    found = proof.enclosure.found()
    return with_findings([trial(name, partial(PLAYS[name][1], proof, clean)) for name in chosen], found), found


def twice(proof: JobProof, clean: CleanJob) -> Observation:
    where = proof.folder / "again"
    copy_warehouse(clean.where, where, proof.enclosure.only_writable)
    recorder = Recorder(where, calls=list(clean.calls.elements()))
    proof.run(where, recorder)
    return Observation("run again", _difference(proof, clean, where, recorder.writes, recorder.calls))


def others(proof: JobProof, clean: CleanJob) -> Observation:
    """Whether parts of a table that this run has nothing to do with are still there after it."""
    session, partitions = run_session(proof.base), 0
    for table in proof.tables:
        before, after = (rows_of(session, place, table) for place in (proof.warehouse, clean.where))
        columns = partitions_of(session, clean.where, table) if before is not None and after is not None else ()
        if before is None or after is None or not columns:
            continue
        gone = before.join(after.select(*columns).distinct(), list(columns), "left_anti")
        partitions += before.select(*columns).distinct().count()
        found = compare(gone, gone.limit(0))
        if found is not None:
            lost = replace(found, causes=(vanished(table, clean.writes),))
            return Observation(f"the other partitions of {table}", lost)
    if not partitions:
        raise NotApplicable("the tables held no partitions before the job ran")
    return Observation(f"{partitions} partitions that were there before")


def crash(proof: JobProof, clean: CleanJob) -> Observation:
    """Before each write but the first: nothing was written before that. After the last is what `twice` shows."""
    count = len(clean.writes)
    if count < 2:
        raise NotApplicable("the job writes once: dying before or after that is what twice shows")
    step = max(1, (count - 1) // MOST_CRASHES)
    for number in range(2, count + 1, step):
        where = proof.copy()
        died = Recorder(where, dies_before=number)
        if proof.run(where, died):
            continue
        rerun = Recorder(where)
        proof.run(where, rerun)
        reason = f"died before write {number} of {count} ({died.writes[-1]}), then run again"
        found = _difference(proof, clean, where, (*died.writes[:-1], *rerun.writes), died.calls + rerun.calls)
        if found is not None:
            return Observation(reason, found)
    return Observation(f"died before each of its {count} writes, then run again")


def parallelism(proof: JobProof, clean: CleanJob) -> Observation:
    for parts, adaptive in ((1, "false"), (8, "true")):
        found, reached = _disturbed(proof, clean, spread(parts), settings(parts, adaptive))
        if found is not None:
            return Observation(f"{parts} partitions", found)
    # Settings are disturbed whatever the job reads; its inputs only where they are reached.
    inputs = "" if reached.frames else "; its inputs as they are"
    return Observation(f"1 partition and 8, adaptive execution off and on{inputs}")


def row_order(proof: JobProof, clean: CleanJob) -> Observation:
    for descending in (False, True):
        found, reached = _disturbed(proof, clean, ordered(descending), settings(1, "false"))
        if found is not None:
            return Observation("inputs in the order of a hash of their rows", found)
        reached.needed("job")
    return Observation(f"inputs in the order of a hash of their rows, and in the opposite one{reached.but_for}")


def late_rows(proof: JobProof, clean: CleanJob) -> Observation:
    """Run while some rows of its inputs are not there yet, then again when they are. Clean is all of them at once."""
    where = proof.copy()
    waiting = Recorder(where, hidden)
    proof.run(where, waiting)
    waiting.reached.needed("job")
    recorder = Recorder(where)
    proof.run(where, recorder)
    found = _difference(proof, clean, where, recorder.writes, ())
    if found is not None and found.missing and not found.added:
        found = replace(found, causes=(overlooked(),))
    return Observation("a third of the rows of its inputs came later", found)


def _disturbed(
    proof: JobProof, clean: CleanJob, inputs: Callable[[DataFrame], DataFrame], conf: dict[str, str]
) -> tuple[Difference | None, DisturbedReads]:
    where = proof.copy()
    recorder = Recorder(where, inputs)
    proof.run(where, recorder, conf)
    return _difference(proof, clean, where, recorder.writes, recorder.calls), recorder.reached


PLAYS = {
    scenario.name: (scenario, play)
    for scenario, play in (
        (Scenario("twice", "run again"), twice),
        (Scenario("others", "what other runs wrote is still there"), others),
        (Scenario("crash", "died before each write, then run again"), crash),
        (Scenario("parallelism", "1 and 8 partitions, adaptive execution off and on"), parallelism),
        (Scenario("row-order", "inputs in another order"), row_order),
        (Scenario("late-rows", "run before some rows of its inputs came, then again", default=False), late_rows),
    )
}


def _clean(proof: JobProof) -> CleanJob:
    where = proof.copy()
    recorder = Recorder(where)
    proof.run(where, recorder)
    check_written(run_session(proof.base), where, proof.tables, "job")
    return CleanJob(where, tuple(recorder.writes), Counter(recorder.calls))


def _difference(
    proof: JobProof, clean: CleanJob, where: Path, writes: Sequence[Write], calls: Sequence[str]
) -> Difference | None:
    for table, found in differing(run_session(proof.base), clean.where, where, proof.tables):
        return replace(found, causes=blame_writes(found, table, writes))
    fix = "Declare it as an effect of the task: it is then sent once, after the publish, with a key."
    return compare_effects(clean.calls, Counter(calls), "effect in the code", fix)


def _chosen(names: Sequence[str]) -> list[str]:
    return choose(PLAYS, names, " for a job")


def _hash(job: Job) -> str:
    try:
        text = inspect.getsource(inspect.unwrap(job))
    except (OSError, TypeError):
        text = repr(job)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
