"""Frame operations with a result that depends on the order of rows."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import OrderFact, OrderProblem
from twice.lint.resolve.chains import Link, unroll
from twice.lint.resolve.flow import Flow
from twice.lint.resolve.module import argument, keyword, literal, method

_AGGREGATES = {"first", "last", "collect_list", "first_value", "last_value", "any_value"}
_SORTED = {"sort_array", "array_sort", "sorted", "size", "array_distinct", "array_contains"}
_LOOKS = {"show", "print", "display", "head", "printSchema", "count", "info", "toPandas", "collect"}


def collect_orders(context: ModuleContext, clocks: Flow) -> None:
    spark = context.is_spark
    pandas = context.imports_any("pandas")
    for call in context.module.calls:
        name = method(call)
        if name in ("dropDuplicates", "drop_duplicates"):
            _survivor(context, call, name, pandas and not spark)
        elif name == "over" and spark:
            _window(context, call, clocks)
        elif name in _AGGREGATES and spark:
            _aggregate(context, call, name)
        elif name in ("limit", "take") and spark and isinstance(call.func, ast.Attribute):
            _limit(context, call, name)


def _survivor(context: ModuleContext, call: ast.Call, name: str, pandas: bool) -> None:
    subset = argument(call, 0, "subset")
    chain = unroll(context.module, call)
    if isinstance(subset, ast.Attribute) and subset.attr == "columns":
        subset = None
    if subset is None or (isinstance(subset, ast.Constant) and subset.value is None):
        return
    if literal(keyword(call, "keep")) is False:
        return
    before = [link.name for link in chain.links[:-1]]
    if (pandas and "sort_values" in before) or _sorted_before(context, call):
        return
    if _whole_selection(subset, chain.links):
        return
    columns = tuple(
        str(part.value) for part in ast.walk(subset) if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )
    context.gathering.add(
        OrderFact(context.place(call), "survivor", f"{name}({', '.join(columns[:3])})", "missing", columns)
    )


def _sorted_before(context: ModuleContext, call: ast.Call) -> bool:
    """``df.sort_values(…, inplace=True)`` or ``df = df.sort_values(…)`` earlier in the same function."""
    if not context.imports_any("pandas"):
        return False
    unit = context.module.unit(call)
    return any(
        method(other) == "sort_values" and other.lineno <= call.lineno and call.lineno - other.lineno < 15
        for other in context.module.calls
        if method(other) == "sort_values" and context.module.unit(other) == unit
    )


def _whole_selection(subset: ast.expr, links: tuple[Link, ...]) -> bool:
    """``df.select("a", "b").dropDuplicates(["a", "b"])``: all columns, so the survivors are equal."""
    wanted = {part.value for part in ast.walk(subset) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    for link in reversed(links):
        if link.name == "select" and link.call is not None:
            plain = [part for part in link.call.args if isinstance(part, ast.Constant)]
            names = {str(part.value) for part in plain}
            return bool(names) and len(plain) == len(link.call.args) and names <= wanted
    return False


def _window(context: ModuleContext, call: ast.Call, clocks: Flow) -> None:
    function = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(function, ast.Call) or method(function) not in ("row_number", "first", "last", "lag", "lead"):
        return
    ranked = method(function) == "row_number"
    window = call.args[0] if call.args else None
    if window is None:
        return
    chain = unroll(context.module, window)
    if not chain.links:
        value = context.module.value(window)
        chain = unroll(context.module, value) if value is not None else chain
    if not chain.has("partitionBy", "orderBy"):
        return
    orders = [value for part in chain.calls("orderBy") for value in part.args]
    flat = [item for value in orders for item in (value.elts if isinstance(value, ast.List) else [value])]
    partitions = " ".join(context.module.source(value) for part in chain.calls("partitionBy") for value in part.args)
    problem: OrderProblem
    if not flat:
        problem = "missing"
    elif all(_is_constant(value) for value in flat):
        problem = "constant"
    elif any(clocks.source(value) is not None for value in flat):
        problem = "clock"
    elif len(flat) == 1 and ranked and not isinstance(flat[0], ast.Starred):
        if isinstance(flat[0], ast.Name):
            return  # a list or column made elsewhere: its content is unknown
        text = context.module.source(flat[0])
        names = re.findall(r"['\"](\w+)['\"]|\.(\w+)\b(?!\()", text)
        only = next((a or b for a, b in names if (a or b) not in ("desc", "asc", "col")), "")
        problem = "constant" if only and re.search(rf"\b{re.escape(only)}\b", partitions) else "single"
    else:
        return
    if not ranked and problem not in ("missing", "constant"):
        return
    kind = "row_number" if ranked else "aggregate"
    columns = tuple(context.module.source(value, 40) for value in flat)
    context.gathering.add(OrderFact(context.place(function), kind, f"{method(function)}().over(…)", problem, columns))  # type: ignore[arg-type]


def _is_constant(value: ast.expr) -> bool:
    return (isinstance(value, ast.Call) and method(value) in ("lit", "monotonically_increasing_id", "rand")) or (
        isinstance(value, ast.Constant) and not isinstance(value.value, str)
    )


def _aggregate(context: ModuleContext, call: ast.Call, name: str) -> None:
    dotted = context.module.dotted(call.func)
    if "functions" not in dotted and not re.search(r"(^|\.)(F|f|sf|fn|func|psf)\.", dotted):
        return
    if not call.args:
        return
    for parent in context.module.ancestors(call):
        if isinstance(parent, ast.Call) and method(parent) in (*_SORTED, "over", "pivot"):
            return
        if isinstance(parent, ast.Attribute) and parent.attr == "over":
            return
        if isinstance(parent, ast.stmt):
            break
    if isinstance(call.args[0], ast.Call) and method(call.args[0]) in ("lit", "struct") and name != "collect_list":
        return
    context.gathering.add(OrderFact(context.place(call), "aggregate", f"{name}()", "missing"))


def _limit(context: ModuleContext, call: ast.Call, name: str) -> None:
    chain = unroll(context.module, call)
    if chain.has("orderBy", "sort", "sort_values"):
        return
    outer: ast.AST = call
    words: list[str] = []
    for parent in context.module.ancestors(call):
        if isinstance(parent, (ast.Attribute, ast.Call)):
            outer = parent
            if isinstance(parent, ast.Attribute):
                words.append(parent.attr)
        else:
            break
    if any(word in _LOOKS for word in words) or name == "take":
        return
    holder = context.module.parent.get(outer)
    stored = "write" in words
    if isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name):
        uses = context.module.uses(holder.targets[0].id, context.module.unit(call))
        stored = any(getattr(context.module.parent.get(use), "attr", "") == "write" for use in uses)
    if stored:
        context.gathering.add(OrderFact(context.place(call), "limit", f"{name}()", "missing"))
