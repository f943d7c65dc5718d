"""The copy of a warehouse that a job may do anything to."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice.proof.jobs.sandbox import copy_warehouse


@pytest.mark.parametrize("enclosed", [True, False])
def test_what_is_written_into_a_copied_file_in_place_is_never_the_users(tmp_path: Path, enclosed: bool) -> None:
    """Enclosed, a link leads to a file that the system keeps: here nothing does, so it must be a link that shows."""
    mine, scratch = tmp_path / "mine", tmp_path / "scratch"
    mine.mkdir()
    for name in ("part-0.parquet", "note.json"):
        (mine / name).write_text("mine")
    copy_warehouse(mine, scratch / "copy", scratch if enclosed else None)
    linked = {path.name for path in (scratch / "copy").iterdir() if path.is_symlink()}
    assert linked == ({"part-0.parquet"} if enclosed else set())
    for path in (scratch / "copy").iterdir():
        if not path.is_symlink():
            path.write_text("theirs")
    assert {path.read_text() for path in mine.iterdir()} == {"mine"}


def test_a_copy_of_a_copy_shares_no_file_with_it_and_links_where_it_linked(tmp_path: Path) -> None:
    mine, scratch = tmp_path / "mine", tmp_path / "scratch"
    mine.mkdir()
    (mine / "old.parquet").write_text("mine")
    copy_warehouse(mine, scratch / "clean", scratch)
    (scratch / "clean" / "new.parquet").write_text("clean")
    copy_warehouse(scratch / "clean", scratch / "again", scratch)
    (scratch / "again" / "new.parquet").write_text("again")
    assert (scratch / "clean" / "new.parquet").read_text() == "clean"
    assert (scratch / "again" / "old.parquet").readlink() == mine / "old.parquet"
