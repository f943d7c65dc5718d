"""Cells become one program, and every position points back into the notebook's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twice.lint.file_facts import FileFacts
from twice.lint.frontends import notebook
from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.reader import read
from twice.lint.run import lint_paths
from twice.lint.settings import LintSettings

APPEND = 'df.write.mode("append").saveAsTable("mart.sales")'


def jupyter(*cells: str | list[str], language: str = "python", indent: int | None = 1) -> str:
    document: dict[str, Any] = {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells],
        "metadata": {"language_info": {"name": language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=indent)


def facts_of(text: str, path: str = "book.ipynb") -> FileFacts:
    return read(path, text, ReadContext())


def pointed_at(text: str, facts: FileFacts) -> list[str]:
    """The text of the file at each write's position."""
    lines = text.splitlines()
    return [lines[write.place.span.line - 1][write.place.span.column - 1 :] for write in facts.writes]


def test_a_write_in_a_cell_points_at_its_line_of_the_file() -> None:
    text = jupyter(["import pandas as pd\n", 'df.to_sql("sales", engine, if_exists="append")'])
    facts = facts_of(text)
    assert facts.language == "notebook"
    assert [where.startswith("df.to_sql(") for where in pointed_at(text, facts)] == [True]


def test_a_cell_kept_as_one_string_has_exact_columns() -> None:
    text = jupyter(
        'label = "é\\"\\\\"\nemoji = "\U0001f600"; df.to_sql("sales", engine, if_exists="append")', indent=None
    )
    assert "\\ud83d\\ude00" in text
    facts = facts_of(text)
    assert [where.startswith("df.to_sql(") for where in pointed_at(text, facts)] == [True]


def test_names_flow_from_cell_to_cell() -> None:
    text = jupyter(
        "from datetime import date\ntoday = date.today()", 'df = spark.table("s").where(f"d = \'{today}\'")', APPEND
    )
    assert [clock.use for clock in facts_of(text).clocks] == ["filter"]


def test_a_sql_cell_is_read_as_sql() -> None:
    text = jupyter("%%sql\nINSERT INTO mart.sales SELECT * FROM core.sales")
    facts = facts_of(text)
    assert [(write.verb, write.target) for write in facts.writes] == [("insert", "mart.sales")]
    assert pointed_at(text, facts)[0].startswith("INSERT INTO mart.sales")


def test_a_sql_line_magic_leaves_the_python_below_it_python() -> None:
    text = jupyter(["%sql INSERT INTO a SELECT 1\n", APPEND])
    assert sorted(write.target for write in facts_of(text).writes) == ["a", "mart.sales"]


def test_what_only_ipython_understands_does_not_hide_the_rest() -> None:
    cell = [
        "%matplotlib inline\n",
        "!pip install x\n",
        "files = !ls\n",
        "if files:\n",
        "    %cd /data\n",
        "df.head?\n",
        APPEND,
    ]
    facts = facts_of(jupyter(cell))
    assert [write.target for write in facts.writes] == ["mart.sales"]
    assert facts.notices == ()


def test_a_timed_statement_is_still_read() -> None:
    facts = facts_of(jupyter(f"%time {APPEND}", f"%%time\n{APPEND}"))
    assert len(facts.writes) == 2


def test_a_line_that_only_looks_like_a_magic_is_kept() -> None:
    facts = facts_of(jupyter('q = ("INSERT INTO t SELECT %s"\n% 1)\nspark.sql(q)'))
    assert [write.target for write in facts.writes] == ["t"]


def test_a_cell_that_cannot_be_parsed_is_a_notice_and_the_others_are_read() -> None:
    facts = facts_of(jupyter("print 'python two'", APPEND))
    assert [write.target for write in facts.writes] == ["mart.sales"]
    assert len(facts.notices) == 1
    assert "cannot be parsed" in facts.notices[0].message


def test_a_file_that_is_no_notebook_is_a_notice() -> None:
    for text in ("", "{", "[]", '{"cells": 3}', "[" * 100_000, "not json"):
        facts = notebook.read("book.ipynb", text, ReadContext())
        assert len(facts.notices) == 1, text[:20]


def test_a_cell_in_a_language_we_do_not_read_is_reported() -> None:
    facts = facts_of(jupyter("%%scala\nval x = 1", "%%bash\nls", "%%html\n<p>"))
    assert [notice.message for notice in facts.notices] == ["a cell in scala was not read"]


def test_a_suppression_covers_its_line_in_the_notebook() -> None:
    text = jupyter([f"{APPEND}  # twice: ignore[TW301] rebuilt by hand"])
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "ignore" in each)
    assert [each.covers for each in facts_of(text).suppressions] == [(line, line)]


EXPORT = """# Databricks notebook source
# MAGIC %md
# MAGIC # Title

# COMMAND ----------

# MAGIC %sql
# MAGIC INSERT INTO silver.t
# MAGIC SELECT 1

# COMMAND ----------

df.write.mode("append").saveAsTable("gold.t")
"""


def test_a_databricks_export_is_read_cell_by_cell() -> None:
    facts = facts_of(EXPORT, "job.py")
    assert [(write.target, write.place.span.line) for write in facts.writes] == [("silver.t", 8), ("gold.t", 13)]
    assert pointed_at(EXPORT, facts)[0].startswith("INSERT INTO silver.t")


def test_a_databricks_export_in_sql_may_hold_python() -> None:
    text = (
        "-- Databricks notebook source\nINSERT INTO a SELECT 1\n\n-- COMMAND ----------\n\n"
        f"-- MAGIC %python\n-- MAGIC {APPEND}\n"
    )
    facts = facts_of(text, "job.sql")
    assert [(write.target, write.place.span.line) for write in facts.writes] == [("a", 2), ("mart.sales", 7)]


def test_quotes_in_a_sql_cell_cannot_break_out_of_it() -> None:
    facts = facts_of(jupyter("%%sql\nINSERT INTO t SELECT '''' || '\\'", APPEND))
    assert "mart.sales" in [write.target for write in facts.writes]


def test_a_notebook_with_large_pictures_is_read(tmp_path: Path) -> None:
    document = json.loads(jupyter('df.to_sql("sales", engine, if_exists="append")'))
    document["cells"][0]["outputs"] = [{"data": {"image/png": "A" * 3_000_000}}]
    (tmp_path / "book.ipynb").write_text(json.dumps(document))
    result = lint_paths([tmp_path], LintSettings(cache=False, jobs=1))
    assert [finding.code for finding in result.findings] == ["TW301"]
    assert len(result.findings[0].source_line) <= 200
    assert result.notices == ()
