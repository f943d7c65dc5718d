"""Files and objects: written whole, opened for appending, or removed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from twice.lint.collect.clients.client_writes import ClientWrite, client_write, target_name
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, method
from twice.lint.statements.mask import mask, shown

FILE_WRITERS = {
    "to_parquet", "to_csv", "to_json", "to_excel", "to_pickle", "to_feather", "put_object", "upload_file",
    "upload_fileobj",
    "upload_from_string", "upload_from_filename", "load_file", "load_string", "load_bytes", "write_parquet",
    "write_csv", "upload_blob",
}  # fmt: skip
_DESTINATIONS = (
    "s3_key",
    "dest_key",
    "key",
    "filename",
    "object_name",
    "destination_object",
    "output_path",
    "destination_path",
    "dst",
)
_LOG_FILE = re.compile(r"log|history|debug|error|trace|report|output\.txt|stdout|audit", re.I)
REMOVERS = {
    "rmtree": re.compile(r"rmtree$"),
    "rm": re.compile(r"\bfs\.rm$"),
    "delete_objects": re.compile(r"\bs3\.delete_objects$"),
    "purge_s3_path": re.compile(r"purge_s3_path$"),
    "delete": re.compile(r"\bfs\.delete$"),
}
"""Calls that empty a path, by name; written behind them, rows are alone there."""


def file_write(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """A file or object written whole: a second run replaces it."""
    if keyword(call, "mode", "partition_cols", "dataset") is not None:
        return  # read by the collector of frames
    given = keyword(call, "Key", "key", "path", "path_or_buf")
    texts = [constant(context.module, value).lower() for value in ([given] if given is not None else call.args[:3])]
    target = next((text for text in texts if "/" in text or "." in text), "")
    path = given if given is not None else call.args[0] if call.args else None
    if not target and isinstance(path, (ast.Name, ast.Attribute)):
        target = target_name(context, path)
    if target:
        fact = client_write(context, call, ClientWrite("overwrite", "file", target, f"{name}()"))
        yield replace(fact, reads=(target,)) if _reads_itself(context, call, path) else fact


def _reads_itself(context: ModuleContext, call: ast.Call, path: ast.expr | None) -> bool:
    """The same function reads the file, extends what it read, and writes it back."""
    if path is None or not method(call).startswith("to_"):
        return False
    unit, words = context.module.unit(call), context.module.source(path)
    own = [other for other in context.module.calls if context.module.unit(other) == unit and other.lineno < call.lineno]
    reads = any(
        method(other).startswith("read_") and other.args and context.module.source(other.args[0]) == words
        for other in own
    )
    return reads and any(method(other) in ("concat", "append") for other in own)


def operator_files(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    for item in call.keywords:
        text = constant(context.module, item.value).lower() if item.arg in _DESTINATIONS else ""
        if "{{" in text:
            yield client_write(context, item.value, ClientWrite("overwrite", "file", shown(mask(text)), f"{name}()"))


def opened_to_append(context: ModuleContext, call: ast.Call, _: str) -> Iterator[WriteFact]:
    attribute = isinstance(call.func, ast.Attribute)
    mode = constant(context.module, argument(call, 0 if attribute and len(call.args) < 2 else 1, "mode"))
    if attribute and mode not in ("a", "at", "ab"):
        return
    if not mode.startswith("a"):
        return
    path = target_name(context, argument(call, 0, "file"))
    if _LOG_FILE.search(path) or re.search(r"\.(log|txt|md|out)$", path):
        return
    yield client_write(context, call, ClientWrite("append", "file", path, f'open(…, "{mode}")'))


def removed(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    if REMOVERS[name].search(context.module.dotted(call.func)):
        yield client_write(context, call, ClientWrite("drop", "file", target_name(context, call.args[0]), f"{name}()"))
