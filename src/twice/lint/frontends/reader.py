"""Which front-end reads a file. Each is one function: ``read(path, text, context) -> FileFacts``.

`path` is how the file is called in reports. `text` is already decoded. A front-end does not raise for bad
input; it returns what it could read and reports the rest in `notices`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from twice.lint.file_facts import FileFacts
from twice.lint.frontends.context import ReadContext

Reader = Callable[[str, str, ReadContext], FileFacts]
_DATABRICKS = ("# Databricks notebook source", "-- Databricks notebook source")
_DBT = re.compile(r"\{\{-?\s*(config|ref|source)\s*\(|\{%-?\s*(macro|snapshot|materialization|test)\b")
SUFFIXES = (".py", ".sql", ".hql", ".ipynb", ".ddl", ".q")


def read(path: str, text: str, context: ReadContext) -> FileFacts:
    """The facts of one file by the front-end that its name and its first lines call for."""
    return reader_for(path, text, context)(path, text, context)


def reader_for(path: str, text: str, context: ReadContext) -> Reader:
    # Loaded when first needed: a run with all its files in the cache pays neither for sqlglot nor for jinja2.
    if path.endswith(".ipynb") or text.lstrip().startswith(_DATABRICKS):
        from twice.lint.frontends.notebook import read as read_notebook

        return read_notebook
    if path.endswith(".py"):
        from twice.lint.frontends.python import read as read_python

        return read_python
    if _is_dbt(text, context):
        from twice.lint.frontends.dbt import read as read_dbt

        return read_dbt
    from twice.lint.frontends.sql import read as read_sql

    return read_sql


def _is_dbt(text: str, context: ReadContext) -> bool:
    if _DBT.search(text):
        return True
    if context.file is None or "{{" not in text:
        return False
    return any((folder / "dbt_project.yml").is_file() for folder in list(context.file.parents)[:6])
