"""Notebooks: Jupyter's .ipynb and the exports of Databricks.

All cells become one Python text, in which a SQL cell is a call of ``spark.sql``: names, tables and transactions
flow from cell to cell, so they are read together. Positions are put back into the notebook's own file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import replace

from twice.lint.facts import TextSpan
from twice.lint.file_facts import FileFacts, Notice
from twice.lint.frontends.cells import Cell, CellLine, exported, of_export, of_jupyter
from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.python import read as read_python

_CELL_MAGIC = re.compile(r"\s*%(%?)(\w+)[ \t]*(.*)", re.DOTALL)
_TIMED = re.compile(r"(\s*)%(?:time|timeit|prun|memit)\b[ \t]*(?:-\w+(?:[ \t]+\d+)?[ \t]+)*")
_SHELL = re.compile(r"(\s*)(?:[!%?]|[\w.\[\], ]+=\s*[!%])|.*[\w)]\?{1,2}\s*$")
_SQL = frozenset({"sql", "sparksql", "read_sql", "bigquery", "sql_magic", "bq"})
_SAME = frozenset({"python", "python3", "py", "time", "timeit", "capture", "prun", "pyspark", "spark", "local"})
_UNREAD = frozenset({"scala", "r", "julia"})
_OPEN, _CLOSE = "spark.sql(r'''", "''')"


def read(path: str, text: str, context: ReadContext) -> FileFacts:
    try:
        cells = of_export(text) if exported(text) else of_jupyter(text)
    except (ValueError, RecursionError) as error:
        notice = Notice(path, 1, f"cannot be read as a notebook: {error}")
        return FileFacts(path, "notebook", context.role, notices=(notice,))
    written: list[CellLine] = []
    notices: list[Notice] = []
    for cell in cells:
        lines, problem = _translated(cell)
        written.extend(lines)
        if problem:
            number = next((line.number for line in cell.lines if line.text.strip()), 1)
            notices.append(Notice(path, number, problem))
    source = "".join(f"{line.text}\n" for line in written)
    facts = read_python(path, source, context)
    return replace(
        facts.moved(_mapped(written)),
        language="notebook",
        notices=(*(_moved(notice, written) for notice in facts.notices), *notices),
    )


def _translated(cell: Cell) -> tuple[list[CellLine], str]:
    """The cell as lines of Python, and what about it could not be read."""
    language, lines = _language_of(cell)
    if language == "sql":
        return _as_call(lines), ""
    if language in _UNREAD:
        return [], f"a cell in {language} was not read"
    if language not in _SAME:
        return [], ""
    # A line of an expression or of a string may look like a magic: the cell is taken as it is if it can be.
    if not _syntax_error(lines):
        return lines, ""
    code = [_plain(line) for line in lines]
    problem = _syntax_error(code)
    return ([], f"a cell cannot be parsed: {problem}") if problem else (code, "")


def _language_of(cell: Cell) -> tuple[str, list[CellLine]]:
    """The language a magic on the first line names, and the lines that are written in it."""
    lines = list(cell.lines)
    while lines and (not lines[0].text.strip() or _is_comment(lines[0], cell.language)):
        lines.pop(0)
    magic = _CELL_MAGIC.match(lines[0].text) if lines else None
    if magic is None:
        return cell.language, list(cell.lines)
    name = magic[2].lower()
    if name in _SQL:
        return _sql_cell(lines, magic)
    # One % covers one line in Jupyter and the whole cell on Databricks, where these are names of languages.
    if magic[1] or name in _UNREAD | {"python", "md", "sh", "fs", "sql", "markdown"}:
        return name, lines[1:]
    return cell.language, list(cell.lines)


def _sql_cell(lines: list[CellLine], magic: re.Match[str]) -> tuple[str, list[CellLine]]:
    rest = lines[1:]
    first = lines[0].cut(magic.start(3))
    more = any(line.text.strip() for line in rest)
    if first.text.strip() and not magic[1] and more and not _syntax_error(rest):
        return "python", [*_as_call([first]), *rest]
    # Options of %%bigquery and of %%sql (a connection, a name for the result) are on the first line.
    return "sql", rest if magic[1] and rest else [first, *rest]


def _as_call(lines: list[CellLine]) -> list[CellLine]:
    lines = [line for line in lines if not line.text.lstrip().startswith("%")]
    if not any(line.text.strip() for line in lines):
        return []
    safe = [replace(line, text=line.text.replace("'''", "' '").rstrip("\\")) for line in lines]
    head, tail = safe[0], safe[-1]
    opening = CellLine(_OPEN, head.number, (head.columns[0],) * (len(_OPEN) + 1))
    closing = CellLine(_CLOSE, tail.number, (tail.columns[-1],) * (len(_CLOSE) + 1))
    return [opening, *safe, closing]


def _plain(line: CellLine) -> CellLine:
    """A line of Python. What only IPython understands becomes `pass`, so that blocks stay whole."""
    timed = _TIMED.match(line.text)
    if timed and line.text[timed.end() :].strip():
        return line.cut(timed.end())
    shell = _SHELL.match(line.text)
    if shell is None or _is_comment(line, "python"):
        return line
    indent = len(line.text) - len(line.text.lstrip())
    return CellLine(" " * indent + "pass", line.number, (line.columns[0],) * (indent + 5))


def _is_comment(line: CellLine, language: str) -> bool:
    return line.text.lstrip().startswith("--" if language == "sql" else "#")


def _syntax_error(lines: list[CellLine]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse("\n".join(line.text for line in lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return str(error.args[0]) if error.args else type(error).__name__
    return ""


def _mapped(written: list[CellLine]) -> Callable[[TextSpan], TextSpan]:
    def where(span: TextSpan) -> TextSpan:
        line, column = _position(written, span.line, span.column)
        if not span.end_line:
            return TextSpan(line, column)
        return TextSpan(line, column, *_position(written, span.end_line, span.end_column))

    return where


def _position(written: list[CellLine], line: int, column: int) -> tuple[int, int]:
    if not written:
        return line, column
    origin = written[min(max(line, 1), len(written)) - 1]
    return origin.number, origin.columns[min(max(column, 1), len(origin.columns)) - 1]


def _moved(notice: Notice, written: list[CellLine]) -> Notice:
    return replace(notice, line=_position(written, notice.line, 1)[0])
