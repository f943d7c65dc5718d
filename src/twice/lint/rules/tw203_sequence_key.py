from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.vocabulary import is_log


class SequenceKey(Rule):
    """A counter of the database is the only key of a loaded table.

    What it does
        Finds tables whose only key is SERIAL, IDENTITY, AUTO_INCREMENT or NEXTVAL.

    Why it breaks a re-run
        The database gives a repeated row the next number, so no constraint ever refuses it, and no conflict
        clause ever matches. A table that is rebuilt gives every row another number.

    When it is fine
        When a UNIQUE constraint on business columns is there next to the counter; then it is not reported.
    """

    code = "TW203"
    name = "sequence-key"
    severity = "warning"
    roles = frozenset({"pipeline", "setup", "tooling"})
    BAD = (
        Case(
            "CREATE TABLE IF NOT EXISTS songplays (\n  songplay_id SERIAL PRIMARY KEY,\n  user_id int,\n  "
            "start_time timestamp\n);\n",
            "tables.sql",
        ),
    )
    GOOD = (
        Case(
            "CREATE TABLE IF NOT EXISTS songplays (\n  songplay_id SERIAL PRIMARY KEY,\n  user_id int,\n"
            "  start_time timestamp,\n  UNIQUE (user_id, start_time)\n);\n",
            "tables.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for fact in file.ids:
            if fact.kind != "sequence" or fact.natural_key or is_log(fact.table):
                continue
            yield self.finding(
                file,
                fact.place,
                f"`{fact.column}` ({fact.call}) is the only key of `{fact.table}`: load the same row twice and it is "
                "there twice, as 1 and as 2, and no constraint objects.",
                "Add a UNIQUE constraint on the business columns, or use a hash of them as the key.",
                declaration="write=merge(key=[<business columns>], …) with surrogate_key(…) for the id",
            )
