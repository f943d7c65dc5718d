from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class WholeRowDistinct(Rule):
    """DISTINCT over whole rows is used where a key belongs.

    What it does
        Finds INSERT … SELECT DISTINCT *.

    Why it breaks a re-run
        A row that changed in one column is not a duplicate: both versions stay.

    When it is fine
        Rows that never change.
    """

    code = "TW604"
    name = "whole-row-distinct"
    severity = "warning"
    preview = True
    BAD = (Case("INSERT INTO t SELECT DISTINCT * FROM s;\n", "t.sql", lines=(1,)),)
    GOOD = (Case("INSERT INTO t SELECT a, max(b) FROM s GROUP BY a;\n", "t.sql"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for order in file.orders:
            if order.kind == "whole_row":
                yield self.finding(
                    file,
                    order.place,
                    f"`{order.call}` removes equal rows only: (42, open) and (42, paid) both stay.",
                    "Keep one row per key, chosen by a version.",
                )
