"""`internal = false`: a whole project whose rows are written by Delta's public calls, from settings to tables."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from twice import Outcome
from twice.core.results.run import RunRequest
from twice.core.task import TableName
from twice.project import run as runs
from twice.wiring.open_project import open_project

SETTINGS = 'project = "p"\ninternal = false\n'
TASKS = """
from twice import Daily, Policy, Whole, merge, read, replace, task

SOURCE = "shop.source"

@task("shop.days", scope=Daily("day", start="2026-06-01"), inputs={"rows": read(SOURCE, by="day")}, write=replace(),
      policy=Policy(evolve=True))
def days(rows):
    return rows

@task("shop.kept", scope=Whole(), inputs={"rows": read(SOURCE)}, write=merge("id", newest_by="n"),
      policy=Policy(evolve=True))
def kept(rows):
    return rows
"""


def test_with_internal_off_replace_and_merge_publish_skip_what_is_published_and_add_columns(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "jobs.py").write_text(TASKS)
    (tmp_path / "twice.toml").write_text(SETTINGS)
    source, day = str(tmp_path / "warehouse/shop/source"), date(2026, 6, 9)

    def rows(name: str) -> list[tuple[Any, ...]]:
        found = spark.read.format("delta").load(str(tmp_path / "warehouse/shop" / name)).orderBy("id").collect()
        return [tuple(row) for row in found]

    with open_project(tmp_path) as opened:
        tasks = {name: runs.slices(opened, name, "2026-06-09" if name == "days" else None) for name in ("days", "kept")}

        def run() -> list[Outcome]:
            return [runs.run(opened, name, slices, RunRequest())[0].outcome for name, slices in tasks.items()]

        spark.createDataFrame([(1, day, 1), (2, day, 1)], "id int, day date, n int").write.format("delta").save(source)
        assert run() == [Outcome.PUBLISHED, Outcome.PUBLISHED]
        assert run() == [Outcome.ALREADY, Outcome.ALREADY]
        assert rows("days") == rows("kept") == [(1, day, 1), (2, day, 1)]
        wider = spark.createDataFrame([(2, day, 2, "x"), (3, day, 1, None)], "id int, day date, n int, note string")
        wider.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(source)
        assert run() == [Outcome.PUBLISHED, Outcome.PUBLISHED]
        assert rows("days") == [(2, day, 2, "x"), (3, day, 1, None)]
        assert rows("kept") == [(1, day, 1, None), (2, day, 2, "x"), (3, day, 1, None)]
        target = opened.targets.of(TableName("shop.days"), opened.context.engine.fresh())
        assert target.one_slice_only(TableName("shop.days")) == "the internal path is switched off"
