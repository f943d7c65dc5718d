from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Severity
from twice.lint.rules.rule import Case, Rule


class OrderDependentAggregate(Rule):
    """An aggregate whose result depends on the order rows arrive in.

    What it does
        Finds first, last, any_value, collect_list, ARRAY_AGG, STRING_AGG and LISTAGG without an order.

    Why it breaks a re-run
        The order of rows after a shuffle differs from run to run, so the value, and any hash of it, differs
        too.

    When it is fine
        When all values of a group are equal, or the list is sorted afterwards; a sort around it is
        recognised.
    """

    code = "TW702"
    name = "order-dependent-agg"
    severity = "warning"
    BAD = (
        Case(
            "from pyspark.sql import functions as F\n"
            "\n"
            "def build(df):\n"
            '    return df.groupBy("id").agg(F.first("status"))\n',
            lines=(4,),
        ),
        Case(
            "CREATE TABLE t AS SELECT id, string_agg(name, ',') AS names FROM s GROUP BY id;\n",
            "x.sql",
            lines=(1,),
        ),
    )
    GOOD = (
        Case(
            "from pyspark.sql import functions as F\n"
            "\n"
            "def build(df):\n"
            '    return df.groupBy("id").agg(F.sort_array(F.collect_list("status")))\n',
        ),
        Case(
            "CREATE TABLE t AS SELECT id, string_agg(name, ',' ORDER BY name) AS names FROM s GROUP BY id;\n",
            "x.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for order in file.orders:
            if order.kind != "aggregate":
                continue
            severity: Severity = "info" if "any_value" in order.call or "anyvalue" in order.call else "warning"
            yield self.finding(
                file,
                order.place,
                f"`{order.call}` takes rows as they come: `open` in one run, `paid` in the next, from the same input.",
                "Say which: `min_by`/`max_by(value, version)`, an ORDER BY inside the aggregate, or sort the list.",
                severity=severity,
            )
