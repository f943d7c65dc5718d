"""What a plan holds that came from no table: its own expressions and constants, and its Python functions.

Whatever the task's function takes from elsewhere (a file read at import, a setting, an environment variable, a package
that builds expressions) is either in the plan it makes, or in a Python function that the plan calls. So two plans
that are written the same, with equal functions, give the same rows of the same inputs, however they came about.

The plan is written down node by node: the text of a node for what it does, and its expressions as SQL for exact
constants (the text writes `IN (x, y)` for one constant and for two). Ids of attributes are numbered by their first
appearance. The cut to the slice, which twice itself makes of each input, is left out: it belongs to the slice, and a
batch cuts more of it than a single run. A column that is added to a table counts only where it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle

from twice.core.lineage import source_name
from twice.core.ports import FUNCTION, PLAN, Leaf
from twice.engine.catalyst import JavaObject, Jvm, class_name, items, parse
from twice.engine.code.modules import home_of
from twice.engine.code.values import identify_function
from twice.engine.lineage.catalog_functions import catalog_functions
from twice.engine.lineage.leaves import INPUT, literal_of
from twice.engine.lineage.scans import digest, source_of, unversioned

_EVERY_FIELD = 2**31 - 1
_ID = re.compile(r"#(\d+)L?")
_OTHER_IDS = re.compile(r"(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+|(?<=UnionLoop )\d+|(?<=UnionLoopRef )\d+")
_ADDRESS = re.compile(r"@[0-9a-f]{4,}\b|\$\$Lambda\S*")
_LITERALS = ("LocalRelation", "Range", "OneRowRelation")
_CUT_OFF = "more fields"
_LONGEST = 200


@dataclass(frozen=True)
class _Line:
    """One node: what it does, with the ids of its attributes, and its expressions as SQL. `leaf`: it reads."""

    text: str
    sql: str
    leaf: bool

    @property
    def bare(self) -> tuple[str, str]:
        return _ID.sub("#", self.text), self.sql


def outside(frame: Any, cuts: Sequence[Any], function: Callable[..., Any]) -> tuple[Leaf, ...]:
    """The plan as one leaf, and one for each Python function in it. `cuts`: the inputs as they were cut to the slice.
    `function`: the task's own. Runs no job; some 1 ms for each node of the plan."""
    plan, jvm = frame._jdf.queryExecution().analyzed(), frame.sparkSession._jvm
    nodes = list(_nodes(plan))
    functions = tuple(_functions(plan, nodes, jvm, home_of(function)))
    try:
        lines = [_line(node, jvm) for node in nodes]
        known = [_written(each, jvm) for each in cuts]
    except Py4JJavaError:
        return (unversioned(PLAN, "with an expression that cannot be written down"), *functions)
    functions = (*functions, *catalog_functions(zip(nodes, (line.sql for line in lines), strict=True), jvm))
    return (Leaf(PLAN, "expressions and constants", _identity(lines, known, functions)), *functions)


def literals(frame: Any) -> tuple[str, ...]:
    """The constants of a plan, in its order: what the task's own Python had computed by the time Spark saw it. No job
    runs."""
    root = parse(frame._jdf.queryExecution().analyzed().toJSON())
    return tuple(str(node.fields.get("value")) for node in root.walk() if node.kind == "Literal")


def _identity(lines: Sequence[_Line], cuts: Sequence[Sequence[tuple[str, str]]], functions: Sequence[Leaf]) -> str:
    # In their order: two functions of one name may have changed places.
    return digest("plan 1", _numbered(lines, cuts), [leaf.identity for leaf in functions])


def _nodes(plan: JavaObject) -> Iterator[JavaObject]:
    """Every node after its parent, the plans of subqueries too."""
    at = 0
    while (node := plan.apply(at)) is not None:
        yield node
        at += 1


def _written(frame: Any, jvm: Jvm) -> list[tuple[str, str]]:
    return [_line(node, jvm).bare for node in _nodes(frame._jdf.queryExecution().analyzed())]


def _line(node: JavaObject, jvm: Jvm) -> _Line:
    text = str(node.simpleString(_EVERY_FIELD))
    word = re.split(r"[\s\[(]", text, maxsplit=1)[0]
    if word == "Relation":
        return _Line(f"Relation {source_of(node.relation())}", "", leaf=True)
    if word == "RelationV2" and node.options().containsKey(INPUT):
        # Read in a snapshot, and by a class that is made for it: neither is part of what is read.
        return _Line(f"Relation {source_name(str(node.options().get(INPUT)))} {node.schema().json()}", "", leaf=True)
    if word in _LITERALS:
        leaf = literal_of(node, parse(node.toJSON()), jvm)
        return _Line(f"{word} {leaf.identity if leaf else ''}", "", leaf=True)
    if word == "CollectMetrics":
        return _Line(word, "", leaf=False)  # counts rows as they pass, under a name made up for each run
    if word == "Union":
        text = f"{text} of {node.children().size()}"
    expressions = node.expressions()
    # Any function of any arguments writes each of them as SQL: one call for all of a node.
    sql = str(jvm.org.apache.spark.sql.catalyst.expressions.Coalesce(expressions).sql())
    if _CUT_OFF in text:  # an expression with more than 25 arguments
        text = f"{text} {node.references().toString()}"
    return _Line(_ADDRESS.sub("", text), sql, leaf=False)


def _numbered(lines: Sequence[_Line], cuts: Sequence[Sequence[tuple[str, str]]]) -> list[list[str]]:
    ids: dict[str, int] = {}
    others: dict[str, int] = {}
    found: list[list[str]] = []
    for at, line in enumerate(lines):
        if not line.leaf and any(_is_cut(lines, at, cut) for cut in cuts):
            found.append(["cut to the slice"])
            continue
        text = _ID.sub(lambda match: f"#{ids.setdefault(match[1], len(ids))}", line.text)
        text = _OTHER_IDS.sub(lambda match: str(others.setdefault(match[0], len(others))), text)
        found.append([text, line.sql])
    return found


def _is_cut(lines: Sequence[_Line], at: int, cut: Sequence[tuple[str, str]]) -> bool:
    """Is this the very filter that twice put on an input, on the very table? One that the task's code wrote with the
    same bounds is above it."""
    return lines[at].text.startswith("Filter ") and [line.bare for line in lines[at : at + len(cut)]] == list(cut)


def _functions(plan: JavaObject, nodes: Sequence[JavaObject], jvm: Jvm, home: Path | None) -> Iterator[Leaf]:
    """One call shows that there is none. A function of the JVM cannot be looked into."""
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    python, scala, table = patterns.PYTHON_UDF(), patterns.SCALA_UDF(), patterns.GENERATOR()
    for pattern in (python, scala, table):
        if not plan.containsPattern(pattern):
            continue
        for node in nodes:
            for expression in items(node.expressions()) if node.containsPattern(pattern) else ():
                yield from _called(expression, pattern, home)


def _called(root: JavaObject, pattern: JavaObject, home: Path | None) -> Iterator[Leaf]:
    waiting = [root]
    while waiting:
        expression = waiting.pop()
        if not expression.containsPattern(pattern):
            continue
        kind = class_name(expression).rpartition(".")[2]
        if kind in ("PythonUDF", "PythonUDAF", "PythonUDTF"):
            yield _python(str(expression.name()), expression.func(), home)
        elif kind in ("ScalaUDF", "ScalaUDAF", "ScalaAggregator"):
            yield unversioned(FUNCTION, "of the JVM, which cannot be compared")
        waiting.extend(items(expression.children()))


def _python(name: str, function: JavaObject, home: Path | None) -> Leaf:
    try:
        command = cloudpickle.loads(bytes(function.command().unsafeArray()))
    except Exception as error:  # noqa: BLE001 - the user's own objects, on their way to a worker
        if function.broadcastVars().size() > 0:  # more than 1 MB goes as one, too
            why = "holds a broadcast, or more than is sent along with it, which cannot be compared"
        else:
            first = (str(error).splitlines() or [""])[0][:_LONGEST]
            why = f"cannot be made again here ({type(error).__name__}: {first}), so it cannot be compared"
        return unversioned(FUNCTION, f"{name} {why}")
    found = identify_function(name, command[0] if isinstance(command, tuple) else command, home)
    return Leaf(FUNCTION, f"{name} {found.why}".strip(), found.identity)
