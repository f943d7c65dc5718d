from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import target_of
from twice.lint.vocabulary import is_counter


class ReadModifyWrite(Rule):
    """An update computes the new value from the old one.

    What it does
        Finds `SET qty = qty - :d`, `total = t.total + s.total` in MERGE and ON CONFLICT, and text that is
        appended to itself.

    Why it breaks a re-run
        Applied twice, it counts twice: stock 10, sold 3, is 7 after the first run and 4 after the second.

    When it is fine
        Counters of retries or views. An update that also flips the flag its own WHERE filters by finds
        nothing the second time and is not reported.
    """

    code = "TW506"
    name = "read-modify-write"
    severity = "error"
    BAD = (
        Case("UPDATE stock SET qty = qty - 3 WHERE sku = 'A1';\n", "stock.sql", lines=(1,)),
        Case(
            "MERGE INTO totals t USING daily s ON t.id = s.id\nWHEN MATCHED THEN UPDATE SET t.amount = "
            "t.amount + s.amount\n"
            "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, s.amount);\n",
            "totals.sql",
        ),
    )
    GOOD = (
        Case(
            "UPDATE stock SET qty = (SELECT sum(change) FROM ledger l WHERE l.sku = stock.sku);\n",
            "stock.sql",
        ),
        Case("UPDATE orders SET total = total + 1, applied = true WHERE applied = false;\n", "orders.sql"),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if not write.increments or write.guards & {"looked_first", "log", "temporary"}:
                continue
            column = write.increments[0]
            counter = all(is_counter(name) for name in write.increments)
            yield self.finding(
                file,
                write.increment_at or write.place,
                f"`{column}` of {target_of(write)} is computed from its own old value: 10 less 3 is 7 "
                "after the first run and 4 after "
                "the second.",
                "Recompute the value from its source rows, or record the applied ids in the same "
                "transaction and skip them.",
                declaration="keep the changes as rows, write=replace() by slice, and derive the level from them",
                severity="info" if counter else "error",
            )
