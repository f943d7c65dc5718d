"""Replace the rows of one slice by Delta's public API alone: a hidden copy, then `replaceWhere` with a token.

Slower (the rows are written twice) and one slice per commit, but it works on every table Delta can write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from twice.core.failpoints import Point, hit
from twice.core.ports import Landed, Lost, Published, Staged
from twice.core.token import Note
from twice.core.write import Changes, Plan
from twice.errors import RunError
from twice.targets.delta import copy
from twice.targets.delta.condition import condition
from twice.targets.delta.fit import fitted
from twice.targets.delta.in_place import prefix
from twice.targets.delta.internal import is_conflict, named
from twice.targets.delta.publish import TRIES, Stage, check_unchanged, landed_or_not, out_of_date
from twice.targets.delta.site import Site
from twice.targets.delta.table import Table


@dataclass(frozen=True)
class Ready:
    """`write` makes one commit of Delta's own, told the note it must carry. `changes` is what it will do if it is based
    on the version `at`: Delta begins its transaction itself, so another writer may come in between."""

    write: Callable[[Note], object]
    changes: Changes | None = None
    at: int | None = None


def stage(site: Site, table: Table, frame: DataFrame, plan: Plan, attempt: str) -> Staged:
    """Dying here leaves a hidden folder named by the attempt."""
    handle = Stage(table, site.path, publish, folder=copy.stage_folder(site.path, attempt))
    total = copy.write(site, handle, fitted(frame, table), plan)
    counts = {plan.slices[0].label: total}
    return Staged(site.name, plan, attempt, total, counts, (str(handle.folder),), handle=handle)


def publish(site: Site, staged: Staged, expected: Mapping[str, int], note: Note) -> Landed | Lost:
    """Dying before Delta's commit publishes nothing, after it everything."""
    return swap(site, staged, expected, note, lambda: Ready(lambda told: _write(site, staged, told)))


def swap(
    site: Site,
    staged: Staged,
    expected: Mapping[str, int],
    note: Note,
    ready: Callable[[], Ready],
) -> Landed | Lost:
    """Compare the token, let Delta write and commit, and read back: Delta skips a version that is not above the
    recorded one without a word. Dying before Delta's commit publishes nothing, after it everything."""
    handle: Stage = staged.handle
    failure: Exception | None = None
    with site.locked():
        for _ in range(TRIES):
            lost = _moved(site, staged, expected)
            if lost is not None:
                return lost
            check_unchanged(handle, site.log.table())
            todo = ready()
            hit(Point.BEFORE_COMMIT)
            try:
                with named(site.session, prefix(staged.attempt)):
                    todo.write(note)
                failure = None
            except Exception as error:  # noqa: BLE001 - whatever was raised, the table says what is true
                failure = error
            else:
                hit(Point.AFTER_COMMIT)
            outcome = landed_or_not(site.session, staged, expected, note, failure)
            if isinstance(outcome, Landed):
                copy.remove(site.session, site.path, staged.attempt)
                return replace(outcome, changes=todo.changes if outcome.version - 1 == todo.at else None)
            if outcome is not None:
                return outcome
            if failure is not None and not is_conflict(failure):
                raise RunError(
                    f"the commit failed: {str(failure).splitlines()[0]}", fix="Run the task again."
                ) from failure
    raise RunError("other writers kept changing the same rows", fix="Run the task again.") from failure


def _moved(site: Site, staged: Staged, expected: Mapping[str, int]) -> Lost | None:
    """Compare. Delta's own check of the pair (a version not above the recorded one is skipped without a word)
    registers the token on its transaction, so a swap between this look and the commit cannot pass."""
    handle: Stage = staged.handle
    version, found = site.log.generations(staged.plan.app_ids)
    if found == dict(expected) and handle.read_at in (None, version):
        return None
    if found == dict(expected):
        raise out_of_date()
    return Lost(Published(version, found))


def _write(site: Site, staged: Staged, note: Note) -> None:
    handle: Stage = staged.handle
    app = staged.plan.app_ids[0]
    writer = (
        copy.rows(site.session, handle)
        .write.format("delta")
        .mode("overwrite")
        .option("txnAppId", app)
        .option("txnVersion", note.generations[app])
        .option("userMetadata", note.to_json())
    )
    where = condition(staged.plan.slices, handle.table.shape.partitioned_by)
    # Never without a condition unless the slice is the whole table: an overwrite would take every other day away.
    if where is not None:
        writer = writer.option("replaceWhere", where)
    elif staged.plan.slices[0].bounds is not None:
        raise AssertionError("a slice with bounds in a table without a slice column")
    writer.save(handle.path)
