"""Declared files as Spark reads them: exactly those that were listed, whatever they are called."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from twice import Daily, read
from twice.core.file_input import FileRead, Files
from twice.core.ports import INPUT_FILES, Leaf
from twice.engine.frames import frames
from twice.engine.frames.files import read_files
from twice.engine.lineage.leaves import leaves
from twice.engine.lineage.non_table_inputs import outside
from twice.errors import DeclarationError
from twice.runtime.inputs.files import list_input
from twice.runtime.inputs.places import Places

pytestmark = pytest.mark.timeout(180)
SCOPE = Daily("day", start="2026-01-01")
SCHEMA = "id BIGINT, day DATE"


def put(root: Path, path: str, *rows: tuple[int, str], header: str = "id,day") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("\n".join([header, *(f"{number},{day}" for number, day in rows)]) + "\n")


def wanted(root: Path, source: Files, label: str = "2026-06-09") -> FileRead:
    from twice import replace, task

    def function(orders: Any) -> Any:
        return orders

    declared = task("t.t", scope=SCOPE, inputs={"orders": source}, write=replace())(function)
    places = Places(root)
    return list_input(places, declared, "orders", (SCOPE.slice_of(label),)).to_read(places)


def csv(pattern: str, schema: str | None = SCHEMA, **more: Any) -> Files:
    return read.files(pattern, format="csv", schema=schema, options={"header": True}, **more)


def test_only_what_was_listed_is_read_whatever_its_name(session: Any, tmp_path: Path) -> None:
    names = ["a b.csv", "[a].csv", "x{1}.csv", "100%25+.csv", "ä.csv", "q?.csv", "star*.csv", "12:30/c.csv", "b\\c.csv"]
    for number, name in enumerate(names):
        put(tmp_path, f"in/2026-06-09/{name}", (number, "2026-06-09"))
    asked = wanted(tmp_path, csv("in/{ds}/*", path_column="file"))
    put(tmp_path, "in/2026-06-09/starlate.csv", (99, "2026-06-09"))
    put(tmp_path, "in/2026-06-09/a.csv", (98, "2026-06-09"))
    rows = read_files(session, asked).collect()
    assert {row.file: row.id for row in rows} == {f"in/2026-06-09/{name}": at for at, name in enumerate(names)}


def test_every_format_that_is_offered_is_read(session: Any, tmp_path: Path) -> None:
    rows = session.createDataFrame([(1, "x"), (2, "y")], "id BIGINT, name STRING").coalesce(1)
    for form in ("csv", "json", "parquet", "orc"):
        rows.write.format(form).save(str(tmp_path / form))
        found = read_files(session, wanted(tmp_path, read.files(form, format=form, schema="id BIGINT, name STRING")))
        assert sorted(map(tuple, found.collect())) == [(1, "x"), (2, "y")]
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("one\ntwo\n")
    assert [
        row.value for row in read_files(session, wanted(tmp_path, read.files("text", format="text"))).collect()
    ] == [
        "one",
        "two",
    ]
    (tmp_path / "a.xml").write_text("<all><row><id>7</id></row></all>")
    xml = read.files("a.xml", format="xml", schema="id BIGINT", options={"rowTag": "row"})
    assert [row.id for row in read_files(session, wanted(tmp_path, xml)).collect()] == [7]


def test_a_schema_may_be_sparks_own(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "in/a.csv", (1, "2026-06-09"))
    frame = session.createDataFrame([], SCHEMA)
    found = read_files(session, wanted(tmp_path, csv("in", schema=frame.schema)))
    assert [tuple(row) for row in found.collect()] == [(1, date(2026, 6, 9))]


def test_folders_that_name_columns_give_them(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "in/dt=2026-06-09/region=eu/a.csv", (1, "2026-06-09"))
    put(tmp_path, "in/dt=2026-06-10/region=us/a.csv", (2, "2026-06-10"))
    by_placeholder = read_files(session, wanted(tmp_path, csv("in/dt={ds}/*", f"{SCHEMA}, dt DATE, region STRING")))
    by_column = read_files(session, wanted(tmp_path, csv("in", None, by="dt")))
    for found in (by_placeholder, by_column):
        (row,) = found.collect()
        assert (int(row.id), row.dt, row.region) == (1, date(2026, 6, 9), "eu")


def test_an_empty_day_has_the_columns_of_its_schema(session: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for form in ("csv", "json", "parquet", "orc", "text"):
        schema = "value STRING" if form == "text" else SCHEMA
        source = read.files("in/{ds}/*", format=form, schema=schema, missing="empty", path_column="file")
        found = read_files(session, wanted(tmp_path, source))
        assert (found.columns[-1], found.count()) == ("file", 0)


def held(session: Any, root: Path, source: Files, label: str) -> tuple[Leaf, ...]:
    """What a run of that day records apart from the listing, with a cut as the runtime makes it."""
    frame = read_files(session, wanted(root, source, label))
    slice_ = SCOPE.slice_of(label)
    cut = frames.cut(frame, "day", slice_.start, slice_.end, None)
    result = cut.groupBy("day").count()
    assert [leaf for leaf in leaves(result) if leaf.kind != INPUT_FILES] == []
    return outside(result, [cut], held)


def test_the_plan_of_a_day_is_that_of_any_other_and_of_an_empty_one(session: Any, tmp_path: Path) -> None:
    """Where its files are does not count: the listing says what they are. How they are read does."""
    put(tmp_path, "in/2026-06-09/a.csv", (1, "2026-06-09"))
    put(tmp_path, "in/2026-06-10/b.csv", (1, "2026-06-10"))
    source = csv("in/{ds}/*", missing="empty")
    found = [held(session, tmp_path, source, label) for label in ("2026-06-09", "2026-06-10", "2026-06-11")]
    assert found[0] == found[1] == found[2]
    (tmp_path / "moved").mkdir()
    (tmp_path / "in").rename(tmp_path / "moved/in")
    assert held(session, tmp_path / "moved", source, "2026-06-09") == found[0]
    other = read.files("in/{ds}/*", format="csv", schema=SCHEMA, options={"header": True, "sep": ";"})
    assert held(session, tmp_path / "moved", other, "2026-06-09") != found[0]


def test_files_that_the_code_reads_by_itself_still_count_by_themselves(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "in/a.csv", (1, "2026-06-09"))
    declared = read_files(session, wanted(tmp_path, csv("in/*.csv")))
    own = session.read.schema(SCHEMA).csv(str(tmp_path / "in"), header=True)
    assert [leaf.kind for leaf in leaves(declared.union(own))] == ["files", INPUT_FILES]


def test_a_path_column_does_not_hide_one_of_the_files(session: Any, tmp_path: Path) -> None:
    put(tmp_path, "in/a.csv", (1, "2026-06-09"))
    with pytest.raises(DeclarationError, match="have a column ID of their own"):
        read_files(session, wanted(tmp_path, csv("in/*.csv", path_column="ID")))


def test_a_json_schema_is_what_sparks_json_says(session: Any) -> None:
    schema = session.createDataFrame([], SCHEMA).schema
    assert json.loads(str(read.files("a", format="csv", schema=schema).schema))["type"] == "struct"
