from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Severity
from twice.lint.rules.rule import Case, Rule

_WHY = {
    "missing": "has no ORDER BY",
    "constant": "orders by something that is equal for all rows it compares",
    "clock": "orders by a clock",
    "single": "orders by one column only",
}


class RowNumberTies(Rule):
    """row_number over an order that leaves ties.

    What it does
        Finds row_number() without ORDER BY, ordered by a constant, by the partition's own column or by a
        clock; as information also by one single column.

    Why it breaks a re-run
        Rows that tie are numbered by chance. Where number 1 is kept or the number is a key, the second run
        keeps another row.

    When it is fine
        One column that is unique within the partition. It is information only.
    """

    code = "TW701"
    name = "row-number-ties"
    severity = "warning"
    BAD = (
        Case("SELECT *, row_number() OVER (PARTITION BY id) AS rn FROM events;\n", "x.sql", lines=(1,)),
        Case(
            "SELECT *, row_number() OVER (ORDER BY (SELECT NULL)) AS id FROM events;\n",
            "x.sql",
            lines=(1,),
        ),
        Case(
            "SELECT *, row_number() OVER (PARTITION BY id ORDER BY ts DESC) AS rn FROM events;\n",
            "x.sql",
            lines=(1,),
        ),
    )
    GOOD = (
        Case(
            "SELECT *, row_number() OVER (PARTITION BY id ORDER BY ts DESC, event_id) AS rn FROM events;\n",
            "x.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for order in file.orders:
            if order.kind != "row_number":
                continue
            severity: Severity = "info" if order.problem == "single" else "warning"
            columns = f" ({', '.join(order.columns)})" if order.columns and order.problem == "single" else ""
            yield self.finding(
                file,
                order.place,
                f"`{order.call}` {_WHY[order.problem]}{columns}: of two rows that tie, either is number 1, "
                "and the next run may choose "
                "the other.",
                "Add columns until the order is total: the version, then the row's own key.",
                declaration='write=merge(key=[…], newest_by="<version>")  # ties are broken by a hash of the content',
                severity=severity,
            )
