"""The cells of a notebook file, and where each of their lines is in it.

Two kinds of file: Jupyter's JSON, and the plain-text export of Databricks (``# COMMAND ----------``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
_EXPORT = re.compile(r"(#|--|//) Databricks notebook source")


@dataclass(frozen=True)
class CellLine:
    """One line of a cell; `columns` gives the file's column of each character and of the end."""

    text: str
    number: int
    columns: tuple[int, ...]

    def cut(self, start: int, stop: int | None = None) -> CellLine:
        text = self.text[start:stop]
        return CellLine(text, self.number, self.columns[start : start + len(text) + 1])


@dataclass(frozen=True)
class Cell:
    language: str
    lines: tuple[CellLine, ...]


def exported(text: str) -> bool:
    return _EXPORT.match(text.lstrip("\ufeff \t\r\n")) is not None


def of_jupyter(text: str) -> list[Cell]:
    """Code cells in order. Raises ValueError when the text is no notebook."""
    notebook = _Decoder().decode(text)
    if not isinstance(notebook, dict) or not isinstance(cells := _cells(notebook), list):
        raise ValueError("it has no list of cells")
    metadata = notebook.get("metadata")
    language = _language(metadata if isinstance(metadata, dict) else {})
    # Line breaks of the file are counted once, not once for each string.
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found = []
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input", ""))
            found.append(Cell(language, tuple(_jupyter_lines(source, text, starts))))
    return found


def of_export(text: str) -> list[Cell]:
    """Cells of a Databricks export; a cell of another language is written as comments that begin with MAGIC."""
    sql = text.lstrip("\ufeff \t\r\n").startswith("--")
    mark = "--" if sql else "#"
    magic = re.compile(rf"\s*{mark} MAGIC ?")
    cells: list[Cell] = []
    lines: list[CellLine] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if re.match(rf"\s*{mark} COMMAND -+\s*$", raw):
            cells.append(Cell("sql" if sql else "python", tuple(lines)))
            lines = []
            continue
        skipped = match.end() if (match := magic.match(raw)) else 0
        line = raw[skipped:]
        lines.append(CellLine(line, number, tuple(range(skipped + 1, skipped + len(line) + 2))))
    return [*cells, Cell("sql" if sql else "python", tuple(lines))]


class _Located(str):
    """A string that knows the offset of its first character in the file."""

    offset: int = 0


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(strict=False)
        self.parse_string = _located_string
        # The scanner written in C ignores parse_string.
        self.scan_once = py_make_scanner(self)


def _located_string(text: str, start: int, strict: bool = True) -> tuple[str, int]:
    value, end = scanstring(text, start, strict)
    located = _Located(value)
    located.offset = start
    return located, end


def _cells(notebook: dict[str, Any]) -> Any:
    if "cells" in notebook:
        return notebook["cells"]
    # Format 3 kept cells in worksheets.
    sheets = notebook.get("worksheets")
    return sheets[0].get("cells") if isinstance(sheets, list) and sheets and isinstance(sheets[0], dict) else None


def _language(metadata: dict[str, Any]) -> str:
    for key, part in (("language_info", "name"), ("kernelspec", "language")):
        described = metadata.get(key)
        if isinstance(described, dict) and isinstance(name := described.get(part), str):
            return name.lower()
    return "python"


def _jupyter_lines(source: Any, text: str, starts: list[int]) -> Iterator[CellLine]:
    pieces = source if isinstance(source, list) else [source]
    row = 0
    for piece in pieces:
        if not isinstance(piece, _Located):
            continue
        while row + 1 < len(starts) and starts[row + 1] <= piece.offset:
            row += 1
        offsets = _offsets(text, piece)
        first = 0
        for line in piece.split("\n"):
            columns = tuple(offset - starts[row] + 1 for offset in offsets[first : first + len(line) + 1])
            if line or first < len(piece):
                yield CellLine(line.rstrip("\r"), row + 1, columns)
            first += len(line) + 1


def _offsets(text: str, piece: _Located) -> list[int]:
    """The file's offset of each character of a JSON string, and of its closing quote."""
    offsets = []
    position = piece.offset
    for _ in range(len(piece)):
        offsets.append(position)
        match = _ESCAPE.match(text, position)
        position = match.end() if match else position + 1
    return [*offsets, position]
