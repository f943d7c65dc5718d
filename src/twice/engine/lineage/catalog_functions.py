"""Functions of the catalog, or registered in a session, that a plan calls. A plan shows them by their name alone, also
where their body is a text of SQL: replaced by another one of that name, the plan reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from twice.core.ports import FUNCTION, Leaf
from twice.engine.catalyst import JavaObject, Jvm, class_name, items
from twice.engine.lineage.scans import digest, unversioned

_CALL = re.compile(r"([\w.`$]+)\(")
_SEEN_ELSEWHERE = ("PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF")
_CALLS_JAVA = ("Invoke", "StaticInvoke")
_OF_SPARK = "org.apache.spark."


def catalog_functions(nodes: Iterable[tuple[JavaObject, str]], jvm: Jvm) -> Iterator[Leaf]:
    """One leaf for each that a node calls: by its body where that is SQL, never the same where it is of the JVM. Each
    node comes with its expressions as SQL: only where these call what is not Spark's own are they looked into."""
    for node, sql in nodes:
        if any(name.lower() not in _own(jvm) for name in _CALL.findall(sql)):
            for expression in items(node.expressions()):
                yield from _called(expression, jvm)


def _called(root: JavaObject, jvm: Jvm) -> Iterator[Leaf]:
    user_defined = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.UserDefinedExpression")
    waiting = [root]
    while waiting:
        expression = waiting.pop()
        kind = class_name(expression).rpartition(".")[2]
        if kind == "SQLScalarFunction":
            yield _of_sql(expression, jvm)
        elif kind in _CALLS_JAVA:
            if kind == "Invoke" or not str(expression.staticObject().getName()).startswith(_OF_SPARK):
                yield unversioned(FUNCTION, "of the JVM, which cannot be compared")
        elif kind not in _SEEN_ELSEWHERE and user_defined.isInstance(expression):
            yield unversioned(FUNCTION, "of the JVM, which cannot be compared")
        waiting.extend(items(expression.children()))


def _of_sql(expression: JavaObject, jvm: Jvm) -> Leaf:
    """Its body, as it was put in its place. Functions that it calls in turn are leaves of their own."""
    name, body = str(expression.function().name()), expression.child()
    if body.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION()):
        return unversioned(FUNCTION, f"{name} of the catalog reads tables by itself, which cannot be compared")
    return Leaf(FUNCTION, f"{name} of the catalog", digest("sql function 1", str(body.sql())))


@cache
def _own(jvm: Jvm) -> frozenset[str]:
    """The names of Spark's own functions. Expressions that are no function of SQL are not there, and cost a look."""
    registry = getattr(getattr(jvm, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$"), "MODULE$")
    return frozenset(name.strip("`").lower() for name in str(registry.functionSet().mkString(",")).split(","))
