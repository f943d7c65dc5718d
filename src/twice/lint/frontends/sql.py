"""`.sql` and `.hql` files. Reads them statement by statement, in the dialect the settings or the text name."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from twice.lint.file_facts import FileFacts, Notice
from twice.lint.frontends.context import ReadContext
from twice.lint.gather import Gathering
from twice.lint.source import suppressions
from twice.lint.statements.parse import guess
from twice.lint.statements.position import SqlPosition, locator
from twice.lint.statements.read import read_text

_MACRO = re.compile(
    r"\{\{\s*(ds|ts|ds_nodash|ts_nodash|prev_ds|next_ds|data_interval_\w+|execution_date|logical_date)\b"
)
"""What only Airflow puts into a statement."""


def read(path: str, text: str, context: ReadContext) -> FileFacts:
    gathering = Gathering()
    locate = locator(text)
    dialect = context.settings.dialect or guess(text, PurePosixPath(path).suffix)
    if dialect in ("spark", "hive"):
        gathering.traits.add("spark")
    if "partitionOverwriteMode" in text and "dynamic" in text.lower():
        gathering.traits.add("dynamic_overwrite")
    if _MACRO.search(text):
        gathering.traits.add("airflow_template")
    position = SqlPosition(locate, unit="<script>", transaction="", engine=dialect or "sql")
    outcome = read_text(text, position, gathering, dialect=dialect)
    if outcome.unread:
        line = locate(outcome.unread[0], outcome.unread[0]).line
        count = len(outcome.unread)
        what = "1 statement" if count == 1 else f"{count} statements"
        gathering.add(Notice(path, line, f"{what} could not be read as SQL, the first here; the rest was read"))
    return gathering.as_facts(path, "sql", context.role, suppressions=suppressions(text))
