"""Files as inputs, on whole runs: what is read, what makes a slice stale, what a missing file means."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.conftest import RuntimeSetup, summed

from twice import Daily, Outcome, Policy, Retry, read, task
from twice import replace as replace_rows
from twice.core.failure.failpoints import Point, armed
from twice.core.ports import INPUT_FILE, INPUT_FILES
from twice.core.task import Task
from twice.errors import DeclarationError, FileChanged, InputMissing
from twice.runtime.run.explain import explain
from twice.runtime.run.run_task import run_task
from twice.runtime.staleness.slice_status import slice_statuses

SCHEMA = "order_id BIGINT, order_date DATE, amount BIGINT"
DAILY = Daily("order_date", start="2026-01-01")


def landed(root: Path, path: str, *rows: tuple[int, str, int]) -> Path:
    """One CSV file."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ["order_id,order_date,amount", *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


def loading(runtime: RuntimeSetup, pattern: str = "landing/{ds}/*.csv", scope: Daily = DAILY, **more: Any) -> Task:
    given = {"format": "csv", "schema": SCHEMA, **more}
    inputs = {"orders": read.files(pattern, **given)}
    policy = Policy(retry=Retry(attempts=1))
    declared = task("shop.revenue", scope=scope, inputs=inputs, write=replace_rows(), name="revenue", policy=policy)
    return runtime.declare(declared(summed))


def statuses(runtime: RuntimeSetup, declared: Task, *labels: str) -> list[tuple[str, str]]:
    slices = tuple(DAILY.slice_of(label) for label in labels)
    return [(each.status, each.why) for each in slice_statuses(runtime.context, declared, slices, None)]


@pytest.fixture
def root(runtime: RuntimeSetup) -> Path:
    landed(runtime.context.root, "landing/2026-06-09/a.csv", (1, "2026-06-09", 10), (2, "2026-06-09", 5))
    landed(runtime.context.root, "landing/2026-06-10/a.csv", (3, "2026-06-10", 7))
    return runtime.context.root


def test_a_slice_reads_its_own_files_and_its_second_run_finds_them_unchanged(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime)
    assert [runtime.run(declared).outcome, runtime.run(declared).outcome] == [Outcome.PUBLISHED, Outcome.ALREADY]
    assert [amount for _, amount in runtime.revenue] == [15]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("add", "its files changed: landing/2026-06-09/b.csv is new"),
        ("change", "its files changed: landing/2026-06-09/a.csv changed"),
        ("touch", "its files changed: landing/2026-06-09/a.csv changed"),
        ("rename", "its files changed: landing/2026-06-09/c.csv is new, landing/2026-06-09/a.csv is gone"),
    ],
)
def test_a_changed_file_makes_exactly_its_slice_stale(runtime: RuntimeSetup, root: Path, what: str, why: str) -> None:
    declared = loading(runtime)
    runtime.run(declared)
    runtime.run(declared, "2026-06-10")
    file = root / "landing/2026-06-09/a.csv"
    if what == "add":
        landed(root, "landing/2026-06-09/b.csv", (4, "2026-06-09", 1))
    elif what == "change":
        landed(root, "landing/2026-06-09/a.csv", (1, "2026-06-09", 11))
    elif what == "touch":
        os.utime(file, ns=(1, 1))
    else:
        file.rename(root / "landing/2026-06-09/c.csv")
    found = statuses(runtime, declared, "2026-06-09", "2026-06-10")
    assert found == [("stale", why), ("published", "same code, same inputs")]
    slice_ = DAILY.slice_of("2026-06-09")
    assert explain(runtime.context, declared, slice_).why == why
    again = runtime.run(declared)
    assert (again.outcome, again.why) == (Outcome.PUBLISHED, why)
    assert runtime.run(declared, "2026-06-10").outcome is Outcome.ALREADY


def test_what_a_slice_was_made_of_is_recorded_with_its_files(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime)
    runtime.run(declared)
    (attempt,) = runtime.ledger.attempts("revenue")
    held = {(record.kind, record.name) for record in attempt.inputs if record.kind in (INPUT_FILES, INPUT_FILE)}
    assert held == {(INPUT_FILES, "landing/2026-06-09/*.csv"), (INPUT_FILE, "landing/2026-06-09/a.csv")}


def test_many_files_are_recorded_together(runtime: RuntimeSetup, root: Path) -> None:
    for number in range(30):
        landed(root, f"landing/2026-06-09/{number}.csv", (number, "2026-06-09", 1))
    declared = loading(runtime)
    runtime.run(declared)
    (attempt,) = runtime.ledger.attempts("revenue")
    assert [record.name for record in attempt.inputs if "file" in record.kind] == ["landing/2026-06-09/*.csv"]
    landed(root, "landing/2026-06-09/31.csv", (31, "2026-06-09", 1))
    assert runtime.run(declared).why == "its files changed: landing/2026-06-09/*.csv"


def test_a_missing_file_is_an_error_and_the_table_stays(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime)
    with pytest.raises(InputMissing) as missing:
        runtime.run(declared, "2026-06-11")
    said = str(missing.value)
    assert (
        "revenue[2026-06-11]: the input orders has no file: landing/2026-06-11/*.csv. The table is unchanged." in said
    )
    assert 'missing="empty"' in said
    assert runtime.version is None


def test_a_missing_file_is_an_empty_day_where_that_is_declared(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime, missing="empty")
    result = runtime.run(declared, "2026-06-11")
    assert (result.outcome, result.slices[0].rows) == (Outcome.PUBLISHED, 0)
    assert runtime.run(declared, "2026-06-11").outcome is Outcome.ALREADY
    landed(root, "landing/2026-06-11/late.csv", (9, "2026-06-11", 2))
    assert statuses(runtime, declared, "2026-06-11")[0][0] == "stale"
    assert runtime.run(declared, "2026-06-11").slices[0].rows == 1


def test_a_disk_that_is_not_mounted_is_no_empty_day(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime, missing="empty")
    runtime.run(declared)
    (root / "landing").rename(root / "elsewhere")
    with pytest.raises(InputMissing, match="but the folder landing itself is not there"):
        runtime.run(declared)
    assert [amount for _, amount in runtime.revenue] == [15]


def test_the_files_of_a_published_slice_that_are_gone_make_it_stale_and_its_run_fails(
    runtime: RuntimeSetup, root: Path
) -> None:
    declared = loading(runtime)
    runtime.run(declared)
    (root / "landing/2026-06-09/a.csv").unlink()
    (found,) = statuses(runtime, declared, "2026-06-09")
    assert found == ("stale", "it cannot be computed now: the input orders has no file: landing/2026-06-09/*.csv")
    with pytest.raises(InputMissing):
        runtime.run(declared)


def test_a_file_that_grows_while_it_is_read_publishes_nothing(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime)

    def grow(passed: Any) -> None:
        if passed is Point.AFTER_STAGE:
            with (root / "landing/2026-06-09/a.csv").open("a") as file:
                file.write("8,2026-06-09,100\n")

    with armed(grow), pytest.raises(FileChanged) as changed:
        runtime.run(declared)
    assert "landing/2026-06-09/a.csv has 75 bytes, and had 58" in str(changed.value)
    assert "The table is unchanged." in str(changed.value)
    assert (runtime.version, runtime.leftovers) == (None, [])


def test_a_file_that_is_written_again_with_the_same_size_publishes_nothing(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime)

    def touch(passed: Any) -> None:
        if passed is Point.AFTER_AUDIT:
            os.utime(root / "landing/2026-06-09/a.csv", ns=(1, 1))

    with armed(touch), pytest.raises(FileChanged, match="landing/2026-06-09/a.csv was written again"):
        runtime.run(declared)
    assert (runtime.version, runtime.leftovers) == (None, [])


def test_a_file_that_changed_is_read_again_by_a_retry(runtime: RuntimeSetup, root: Path) -> None:
    declared = replace(loading(runtime), policy=Policy(retry=Retry(attempts=3)))
    runtime.declare(declared)
    times: list[Path] = []

    def grow(passed: Any) -> None:
        if passed is Point.AFTER_STAGE and not times:
            times.append(landed(root, "landing/2026-06-09/a.csv", (1, "2026-06-09", 1000)))

    with armed(grow):
        assert runtime.run(declared).outcome is Outcome.PUBLISHED
    assert [amount for _, amount in runtime.revenue] == [1000]
    assert len(runtime.pauses) == 1


def test_a_file_that_is_gone_while_it_is_read_is_the_reason_of_what_went_wrong(
    runtime: RuntimeSetup, root: Path
) -> None:
    declared = loading(runtime)

    def stolen(orders: Any) -> Any:
        (root / "landing/2026-06-09/a.csv").unlink()
        raise OSError("no such file")

    declared = runtime.declare(replace(declared, function=stolen))
    with pytest.raises(FileChanged, match="landing/2026-06-09/a.csv is gone"):
        runtime.run(declared)


def test_a_file_that_came_since_is_for_the_next_run(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime)

    def add(passed: Any) -> None:
        if passed is Point.AFTER_STAGE:
            landed(root, "landing/2026-06-09/b.csv", (4, "2026-06-09", 1))

    with armed(add):
        assert runtime.run(declared).outcome is Outcome.PUBLISHED
    assert [amount for _, amount in runtime.revenue] == [15]
    assert runtime.run(declared).why == "its files changed: landing/2026-06-09/b.csv is new"
    assert [amount for _, amount in runtime.revenue] == [16]


def test_without_a_placeholder_all_files_count_for_every_slice(runtime: RuntimeSetup, root: Path) -> None:
    declared = loading(runtime, "landing/**/*.csv", by="order_date")
    runtime.run(declared)
    runtime.run(declared, "2026-06-10")
    assert [amount for _, amount in runtime.revenue] == [15, 7]
    landed(root, "landing/2026-06-10/b.csv", (4, "2026-06-10", 1))
    assert [status for status, _ in statuses(runtime, declared, "2026-06-09", "2026-06-10")] == ["stale", "stale"]


def parted(root: Path) -> None:
    landed(root, "parts/dt=2026-06-09/a.csv", (1, "2026-06-09", 10))
    landed(root, "parts/dt=2026-06-10/a.csv", (2, "2026-06-10", 20))


PARTED: dict[str, Any] = {"schema": f"{SCHEMA}, dt DATE", "by": "dt"}


def totals(orders: Any) -> Any:
    return summed(replace(orders, columns=orders.columns[:3], rows=tuple(row[:3] for row in orders.rows)))


def test_a_folder_of_the_column_that_cuts_belongs_to_its_slice(runtime: RuntimeSetup, root: Path) -> None:
    parted(root)
    declared = runtime.declare(replace(loading(runtime, "parts", **PARTED), function=totals))
    runtime.run(declared)
    runtime.run(declared, "2026-06-10")
    landed(root, "parts/dt=2026-06-10/b.csv", (3, "2026-06-10", 1))
    found = statuses(runtime, declared, "2026-06-09", "2026-06-10")
    assert found == [
        ("published", "same code, same inputs"),
        ("stale", "its files changed: parts/dt=2026-06-10/b.csv is new"),
    ]
    with pytest.raises(InputMissing, match="the input orders has no file of 2026-06-11: parts"):
        runtime.run(declared, "2026-06-11")


def test_a_slice_of_a_batch_has_the_files_that_it_has_alone(runtime: RuntimeSetup, root: Path) -> None:
    parted(root)
    batch = Daily("order_date", start="2026-01-01", batch=True)
    declared = runtime.declare(replace(loading(runtime, "parts", batch, **PARTED), function=totals))
    both = tuple(batch.through(batch.slice_of("2026-06-09"), batch.slice_of("2026-06-10")))
    assert run_task(runtime.context, declared, both).outcome is Outcome.PUBLISHED
    assert [amount for _, amount in runtime.revenue] == [10, 20]
    assert [runtime.run(declared, slice_.label).outcome for slice_ in both] == [Outcome.ALREADY] * 2
    landed(root, "parts/dt=2026-06-10/b.csv", (3, "2026-06-10", 1))
    assert [status for status, _ in statuses(runtime, declared, "2026-06-09", "2026-06-10")] == ["published", "stale"]


def test_files_that_are_not_watched_are_read_and_make_nothing_stale(runtime: RuntimeSetup, root: Path) -> None:
    """Also where they were watched when the slice was published; and watched again, what came since counts."""
    watched = loading(runtime, missing="empty")
    runtime.run(watched)
    declared = loading(runtime, missing="empty", watch=False)
    os.utime(root / "landing/2026-06-09/a.csv", ns=(1, 1))
    assert statuses(runtime, declared, "2026-06-09") == [("published", "same code, same inputs")]
    assert runtime.run(declared).outcome is Outcome.ALREADY
    assert runtime.run(watched).outcome is Outcome.PUBLISHED


def test_a_path_column_names_each_rows_file(runtime: RuntimeSetup, root: Path) -> None:
    seen: list[Any] = []

    def looking(orders: Any) -> Any:
        seen.extend(row[3] for row in orders.rows)
        return totals(orders)

    runtime.run(runtime.declare(replace(loading(runtime, path_column="file"), function=looking)))
    assert set(seen) == {"landing/2026-06-09/a.csv"}


def test_a_project_that_moved_keeps_what_it_published(runtime: RuntimeSetup, root: Path, tmp_path: Path) -> None:
    declared = loading(runtime)
    runtime.run(declared)
    moved = tmp_path / "moved"
    moved.mkdir()
    (root / "landing").rename(moved / "landing")
    runtime.context = replace(runtime.context, root=moved)
    assert runtime.run(declared).outcome is Outcome.ALREADY


def test_nothing_is_read_outside_of_the_project_unless_roots_allows_it(
    runtime: RuntimeSetup, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    landed(elsewhere, "2026-06-09/a.csv", (1, "2026-06-09", 3))
    declared = loading(runtime, f"{elsewhere}/{{ds}}/*.csv")
    with pytest.raises(DeclarationError, match=r'outside of the project. Allow its folder in twice.toml: roots = \["'):
        runtime.run(declared)
    runtime.context = replace(runtime.context, roots=(elsewhere,))
    assert runtime.run(declared).outcome is Outcome.PUBLISHED


def test_a_link_out_of_the_project_is_followed_to_where_it_leads(
    runtime: RuntimeSetup, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (root / "landing/2026-06-11").mkdir()
    (root / "landing/2026-06-11/a.csv").symlink_to(landed(elsewhere, "a.csv", (1, "2026-06-11", 3)))
    with pytest.raises(DeclarationError, match="landing/2026-06-11/a.csv, which is .*: that is outside of the project"):
        runtime.run(loading(runtime), "2026-06-11")


def test_the_files_of_a_delta_table_are_no_input(runtime: RuntimeSetup, root: Path) -> None:
    (root / "landing/_delta_log").mkdir()
    with pytest.raises(DeclarationError, match="reads files of the Delta table landing"):
        runtime.run(loading(runtime))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_may_not_be_listed_is_no_empty_one(runtime: RuntimeSetup, root: Path) -> None:
    (root / "landing/2026-06-09").chmod(0)
    try:
        with pytest.raises(InputMissing, match="landing/2026-06-09 cannot be listed: Permission denied"):
            runtime.run(loading(runtime, missing="empty"))
    finally:
        (root / "landing/2026-06-09").chmod(0o700)


def test_columns_in_folders_of_several_places_are_refused(runtime: RuntimeSetup, root: Path) -> None:
    landed(root, "a/dt=2026-06-09/a.csv", (1, "2026-06-09", 10))
    landed(root, "b/dt=2026-06-09/a.csv", (1, "2026-06-09", 10))
    with pytest.raises(DeclarationError, match="has folders column=value in several places: a, b"):
        runtime.run(loading(runtime, "[ab]/**/*.csv"))
