"""Where a frame comes from: the calls that made it, its sources, and whether it is one slice of time."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard
from twice.lint.resolve.chains import Chain, unroll
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, literal, method
from twice.lint.vocabulary import is_date_argument, is_log, is_temporary, names_the_run

_DATE = re.compile(r"date|day|_dt|^dt|ds$|^ds|hour|month|year|time|_ts|partition|week", re.I)

_REFUSED = re.compile(
    r"(^|[/._{])(errors?|rejects?|rejected|quarantined?|dead_?letters?|bad_?records?|audit)([/._}]|$)", re.I
)
"""Rows set aside, or notes about the run."""


def frame_history(context: ModuleContext, chain: Chain, depth: int = 0) -> list[ast.Call]:
    """Every call that made the frame, through variables and one level of functions."""
    calls = [link.call for link in chain.links if link.call is not None]
    root = chain.root
    if depth < 4:
        if isinstance(root, ast.Name):
            for value in context.module.values.get((context.module.unit(root), root.id), [])[:6]:
                if isinstance(value, ast.Call):
                    calls.extend(frame_history(context, unroll(context.module, value, through=False), depth + 1))
        elif isinstance(root, ast.Call):
            calls.append(root)
            if isinstance(root.func, ast.Name) and root.func.id in context.module.functions:
                calls.extend(
                    part for part in ast.walk(context.module.functions[root.func.id]) if isinstance(part, ast.Call)
                )
            for value in root.args[:3]:
                if isinstance(value, (ast.Name, ast.Call)):
                    calls.extend(frame_history(context, unroll(context.module, value), depth + 1))
    return calls[:300]


def is_sliced(context: ModuleContext, call: ast.Call, chain: Chain) -> bool:
    """The frame is one slice of time: filtered by a date, read from a dated path, or made for a run date."""
    for part in frame_history(context, chain):
        if method(part) in ("filter", "where"):
            text = context.module.source(part, 400)
            if _DATE.search(text) and re.search(r"==|>=|between|BETWEEN|[^<>=!]=[^=]", text):
                return True
        if method(part) == "sql" and part.args:
            text = constant(context.module, part.args[0])
            if re.search(r"\bwhere\b.*(date|_dt|ds|day|hour|month)\w*\s*(=|>=|between)", text, re.I | re.S):
                return True
        if (
            method(part) in ("load", "parquet", "csv", "json", "orc")
            and part.args
            and names_the_run(constant(context.module, part.args[0]))
        ):
            return True
    function = context.module.owner(call)
    if function is not None:
        names = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
        return any(is_date_argument(name) for name in names)
    return False


def frame_sources(context: ModuleContext, chain: Chain) -> tuple[str, ...]:
    found = []
    ends = [index for index, link in enumerate(chain.links) if link.name == "write"]
    before = Chain(chain.root, chain.links[: ends[-1]] if ends else chain.links)
    for part in frame_history(context, before):
        if method(part) in ("load", "parquet", "csv", "json", "orc", "table", "read_parquet", "read_csv"):
            value = part.args[0] if part.args else None
            text = constant(context.module, value) or (context.module.source(value, 40) if value is not None else "")
            found.append(text.strip().lower())
    return tuple(dict.fromkeys(item for item in found if item))


def is_anti_joined(context: ModuleContext, chain: Chain) -> bool:
    return any(_anti(part) for part in frame_history(context, chain))


def _anti(call: ast.Call) -> bool:
    if method(call) in ("subtract", "exceptAll"):
        return True
    if method(call) != "join":
        return False
    how = literal(argument(call, 2, "how"))
    return isinstance(how, str) and how.replace("_", "").lower() in ("leftanti", "anti")


def target_guards(target: str) -> set[Guard]:
    guards: set[Guard] = set()
    if is_temporary(target):
        guards.add("temporary")
    if names_the_run(target):
        guards.add("run_path")
    if is_log(target) or _REFUSED.search(target):
        guards.add("log")
    return guards
