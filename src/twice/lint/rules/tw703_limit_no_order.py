from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class LimitNoOrder(Rule):
    """LIMIT without an order feeds a write.

    What it does
        Finds LIMIT, TOP and limit() without ORDER BY in statements that store their result.

    Why it breaks a re-run
        Which hundred rows is left to the engine; the second run stores another hundred.

    When it is fine
        Probes and samples nobody keeps.
    """

    code = "TW703"
    name = "limit-no-order"
    severity = "warning"
    preview = True
    BAD = (Case("CREATE TABLE t AS SELECT * FROM s LIMIT 100;\n", "t.sql", lines=(1,)),)
    GOOD = (Case("CREATE TABLE t AS SELECT * FROM s ORDER BY id LIMIT 100;\n", "t.sql"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for order in file.orders:
            if order.kind == "limit" and order.stored:
                yield self.finding(
                    file,
                    order.place,
                    f"`{order.call}` without an order stores any rows: the second run may store others.",
                    "Order by a key before the limit.",
                )
