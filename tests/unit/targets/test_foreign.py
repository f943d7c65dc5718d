"""A folder in which a table is to be made must be free: what is not ours is never taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.errors import DeclarationError
from twice.targets.delta.create import check_free


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["_twice/lock", "_twice/stage/a1/part-00000.parquet"],
        ["_delta_log/.00000000000000000000.json.1b2c.tmp"],
        ["twice-0a1b-part-00000-3c3d.c000.snappy.parquet", ".twice-0a1b-part-00000-3c3d.c000.snappy.parquet.crc"],
        ["order_date=2026-06-09/twice-0a1b-part-00000-3c3d.c000.snappy.parquet"],
        ["_SUCCESS", ".DS_Store"],
    ],
)
def test_what_killed_attempts_left_and_what_readers_pass_over_is_free(tmp_path: Path, names: list[str]) -> None:
    folder = put(tmp_path / "shop" / "orders", *names)
    check_free("shop.orders", folder, 1)
    check_free("shop.orders", tmp_path / "nothing" / "there", 1)


@pytest.mark.parametrize("name", ["day=2026-01-01", "part", "deep/day=1", "_a=1"])
def test_a_link_is_refused_since_what_lies_behind_it_is_not_looked_at(tmp_path: Path, name: str) -> None:
    behind = put(tmp_path / "data", "part-0.parquet")
    link = tmp_path / "shop" / "orders" / name
    link.parent.mkdir(parents=True)
    for target in (behind, tmp_path / "gone", behind / "part-0.parquet"):
        link.symlink_to(target)
        with pytest.raises(DeclarationError, match=f"holds a link that is not a file of twice, {name}"):
            check_free("shop.orders", tmp_path / "shop" / "orders", 1)
        link.unlink()


def test_a_linked_place_and_links_that_every_reader_passes_over_are_free(tmp_path: Path) -> None:
    put(tmp_path / "disk", ".hidden/x.parquet")
    (tmp_path / "disk" / "_twice").symlink_to(tmp_path / "disk" / ".hidden")
    (tmp_path / "orders").symlink_to(tmp_path / "disk")
    check_free("orders", tmp_path / "orders", 0)


@pytest.mark.parametrize(
    ("names", "what", "fix"),
    [
        (
            ["part-00000.parquet"],
            "holds Parquet files that are not a Delta table, e.g. part-00000.parquet",
            "CONVERT TO DELTA",
        ),
        (["day=1/part-0.parquet"], "e.g. day=1/part-0.parquet", "PARTITIONED BY (day …)"),
        (["_a=1/part-0.parquet"], "e.g. _a=1/part-0.parquet", "PARTITIONED BY (_a …)"),
        (["metadata/v1.metadata.json", "data/x.parquet"], "holds an Iceberg table", "another target"),
        ([".hoodie/hoodie.properties", "x.parquet"], "holds a Hudi table", "another target"),
        (["2026.csv"], "files that are not a table of twice, e.g. 2026.csv", "another target"),
        (["deep/er/2026.json"], "e.g. deep/er/2026.json", "another target"),
        (
            ["orders/_delta_log/0.json", "orders/x.parquet"],
            "is the folder of other tables, e.g. orders",
            "another target",
        ),
        (["deep/twice-0a1b-part-00000-3c3d.parquet"], "e.g. deep/twice", "CONVERT"),
    ],
)
def test_anything_else_is_refused_with_the_ways_out(tmp_path: Path, names: list[str], what: str, fix: str) -> None:
    folder = put(tmp_path / "shop", *names)
    before = sorted(folder.rglob("*"))
    with pytest.raises(DeclarationError) as refused:
        check_free("shop", folder, 0)
    assert str(refused.value).startswith(f"shop cannot be made: {folder} ")
    assert what in refused.value.what
    assert fix in refused.value.fix
    assert "Give the task another target" in refused.value.fix
    assert refused.value.now == "Nothing was written."
    assert sorted(folder.rglob("*")) == before


def test_a_table_inside_another_tables_folder_is_refused(tmp_path: Path) -> None:
    """Its VACUUM deletes every file below that its own log does not name."""
    put(tmp_path / "shop", "_delta_log/00000000000000000000.json")
    with pytest.raises(DeclarationError, match="its VACUUM would delete"):
        check_free("shop.orders", tmp_path / "shop" / "orders", 1)
    check_free("orders", tmp_path / "shop" / "orders", 0)  # above the warehouse nobody looks


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "orders")
    with pytest.raises(DeclarationError, match="orders"):
        check_free("orders", tmp_path / "orders", 0)
