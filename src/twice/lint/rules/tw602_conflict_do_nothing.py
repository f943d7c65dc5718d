from __future__ import annotations

import re
from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import table_for, target_of

_LEDGERS = re.compile(r"(^|[_.])(outbox|inbox|processed|applied|handled|seen|claims?|dedup|idempot\w*)(_|$|\.)")
"""Tables of keys and messages: the first row is the true one, that is what they are for."""


class ConflictDoNothing(Rule):
    """An existing row wins, so a corrected one is dropped without a word.

    What it does
        Finds ON CONFLICT DO NOTHING, INSERT IGNORE, INSERT OR IGNORE and merges that only insert.

    Why it breaks a re-run
        A re-run after a correction changes nothing: the wrong row of the first run stays.

    When it is fine
        Events that never change, date dimensions, pure key tables. It is information.
    """

    code = "TW602"
    name = "conflict-do-nothing"
    severity = "info"
    BAD = (
        Case(
            "INSERT INTO users (id, level) SELECT id, level FROM staging ON CONFLICT (id) DO NOTHING;\n",
            "users.sql",
            lines=(1,),
        ),
    )
    GOOD = (
        Case(
            "INSERT INTO users (id, level) SELECT id, max(level) FROM staging GROUP BY id\n"
            "ON CONFLICT (id) DO UPDATE SET level = EXCLUDED.level;\n",
            "users.sql",
        ),
        Case(
            "INSERT INTO applied_bookings (booking_id, at) SELECT id, at FROM staging ON CONFLICT "
            "(booking_id) DO NOTHING;\n",
            "bookings.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if not write.nothing_on_conflict or write.guards & {"temporary", "log", "constant_rows"}:
                continue
            if _LEDGERS.search(write.target):
                continue
            yield self.finding(
                file,
                write.place,
                f"A row that {target_of(write)} already has is kept as it is: a re-run with corrected data "
                "(level paid) leaves the old "
                "row (level free).",
                "If rows can change, use DO UPDATE guarded by a version; if not, this is fine.",
                declaration=f'@task("{table_for(write)}", …, write=insert_new(key=[…]))  # reports rows that differ',
            )
