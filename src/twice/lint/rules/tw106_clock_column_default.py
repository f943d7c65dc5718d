from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class ClockColumnDefault(Rule):
    """A column of a loaded table is filled by the database's clock.

    What it does
        Finds DEFAULT now() and its relatives in table definitions.

    Why it breaks a re-run
        Rows loaded again get another value; where the column later orders or deduplicates, the repeated row
        looks newer.

    When it is fine
        Tables an application writes row by row, and columns nobody compares.
    """

    code = "TW106"
    name = "clock-column-default"
    severity = "info"
    preview = True
    BAD = (
        Case(
            "CREATE TABLE events (id int PRIMARY KEY, created timestamp DEFAULT now());\n",
            "t.sql",
            lines=(1,),
        ),
    )
    GOOD = (Case("CREATE TABLE events (id int PRIMARY KEY, created timestamp NOT NULL);\n", "t.sql"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for clock in file.clocks:
            if clock.use == "column_default":
                yield self.finding(
                    file,
                    clock.place,
                    f"`{clock.name}` is filled by `{clock.call}` when the row arrives: a row loaded again "
                    "looks newer than it is.",
                    "Give the value from the run or the source explicitly.",
                )
