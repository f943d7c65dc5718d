"""The shape that the table of decision 22 shows is kept: no figure of its last column may get worse. How much there is
of everything (modules, lines, files) grows with what is built and is not compared."""

from __future__ import annotations

import re
from pathlib import Path

from scripts import house_figures

TABLE = Path(__file__).parents[2] / "docs" / "decisions" / "0022-rooms-words-and-one-api.md"
TOLERANCE = 0.1
"""Ordinary commits pass; so does one more of what there are few of."""
SIZES = {"modules, lines", "files that mypy checks"}


def written() -> dict[str, tuple[int, ...]]:
    """The numbers of the table's last column by the name of their row; what is in brackets explains them."""
    rows = (line.strip("|").split("|") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:1] == "|")
    return {row[0].strip(): numbers(row[-1]) for row in rows if len(row) == 3}


def numbers(cell: str) -> tuple[int, ...]:
    plain = re.sub(r"\([^)]*\)", "", cell)
    return tuple(int(found.replace(",", "")) for found in re.findall(r"\d+(?:,\d{3})*", plain))


def is_kept(old: int, new: int) -> bool:
    return new - old <= max(1, TOLERANCE * old)


def test_the_shape_of_the_house_is_kept_and_there_is_no_ring_at_all() -> None:
    """In one test: reading the whole source takes seconds."""
    now, table = house_figures.figures(), written()
    assert now["import rings (modules in them)"] == (0,)
    worse = {
        row: f"written {table.get(row)}, now {found}"
        for row, found in now.items()
        if row not in SIZES and (len(table.get(row, ())) != len(found) or not all(map(is_kept, table[row], found)))
    }
    assert worse == {}, f"mend it, or say in {TABLE.name} why it is right now (scripts/house_figures.py prints it)"


def test_a_ring_is_found_with_all_its_modules() -> None:
    imports = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set[str]()}
    assert house_figures.rings_of(imports) == [{"a", "b", "c"}]


def test_numbers_are_read_from_a_cell_without_its_explanations() -> None:
    assert numbers(" 495, 52,900 ") == (495, 52_900)
    assert numbers(" 28 (`run_task.py`, 3) ") == (28,)
    assert (is_kept(49, 53), is_kept(49, 55), is_kept(2, 3), is_kept(2, 4)) == (True, False, True, False)
