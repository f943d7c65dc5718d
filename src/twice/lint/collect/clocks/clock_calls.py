"""What reads a clock: in Python, in a condition written as text, in a shell command."""

from __future__ import annotations

import ast
import re

from twice.lint.resolve.flow import Flow
from twice.lint.resolve.module import LintedModule, literal, method

_CLOCK = re.compile(
    r"(^|\.)(datetime\.(now|utcnow|today)|date\.today|time\.time|time\.time_ns|time\.localtime|time\.gmtime|pendulum\.(now|today|yesterday|tomorrow)"
    r"|arrow\.(now|utcnow)|Timestamp\.(now|today|utcnow)|timezone\.(now|utcnow)|dates\.days_ago|days_ago|Timestamp\.utcnow"
    r"|functions\.(current_date|current_timestamp|now|curdate|unix_timestamp|localtimestamp))$"
)  # fmt: skip
CLOCK_IN_TEXT = re.compile(r"\bcurrent_(date|timestamp)\b(\(\))?|\bnow\(\)", re.I)
CLOCK_IN_SHELL = re.compile(r"(\$\(|`)date\b[^)`]*[)`]")
STATEMENT = re.compile(r"\s*(select|insert|with|update|delete|merge|create)\b", re.I)


def is_clock_call(module: LintedModule, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    dotted = module.dotted(node.func)
    if _CLOCK.search(dotted):
        last = dotted.rsplit(".", 1)[-1]
        # unix_timestamp(column), time.localtime(stamp): these convert, they do not read the clock.
        return not (last in ("unix_timestamp", "localtime", "gmtime") and node.args)
    if dotted == "time.strftime":
        return len(node.args) == 1
    if dotted in ("pandas.to_datetime", "pandas.Timestamp", "numpy.datetime64") and node.args:
        return literal(node.args[0]) in ("now", "today")
    if method(node) == "expr" and node.args and isinstance(literal(node.args[0]), str):
        return bool(re.search(r"current_(date|timestamp)|\bnow\(\)", str(literal(node.args[0])), re.I))
    return False


def clock_flow(module: LintedModule) -> Flow:
    return Flow(module, lambda node: is_clock_call(module, node))
