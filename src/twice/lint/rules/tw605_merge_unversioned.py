from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import target_of


class MergeUnversioned(Rule):
    """An update in a merge does not look at the version.

    What it does
        Finds WHEN MATCHED THEN UPDATE without a condition.

    Why it breaks a re-run
        An old file replayed late overwrites newer rows.

    When it is fine
        Full snapshots.
    """

    code = "TW605"
    name = "merge-unversioned"
    severity = "info"
    preview = True
    BAD = (
        Case(
            "MERGE INTO t USING (SELECT id, max(v) AS v FROM s GROUP BY id) s ON t.id = s.id WHEN MATCHED "
            "THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v);\n",
            "t.sql",
            lines=(1,),
        ),
    )
    GOOD = (
        Case(
            "MERGE INTO t USING (SELECT id, max(v) AS v FROM s GROUP BY id) s ON t.id = s.id WHEN "
            "MATCHED AND s.v > t.v THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT (id, v) "
            "VALUES (s.id, s.v);\n",
            "t.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            shape = write.merge
            if shape is not None and shape.updates and not shape.versioned and write.verb == "merge":
                yield self.finding(
                    file,
                    write.place,
                    f"Every matched row of {target_of(write)} is overwritten, also by an older one: "
                    "replaying last week's file undoes this week.",
                    "Update only where the source is newer: `WHEN MATCHED AND s.version > t.version`.",
                    declaration='write=merge(key=[…], newest_by="<version>")',
                )
