from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import merges, target_of


class MergeNoDedup(Rule):
    """A merge whose source may hold a key more than once.

    What it does
        Finds MERGE, `DeltaTable.merge` and INSERT … SELECT … ON CONFLICT DO UPDATE whose source is not made
        unique on the key: no row_number, GROUP BY or DISTINCT is seen.

    Why it breaks a re-run
        Two source rows of one existing key make the merge fail, or one of them wins by chance. Two of a new
        key are both inserted, and from then on every merge of that key fails or doubles.

    When it is fine
        The source is unique by other means (a test, a constraint). Silence it with the reason.
    """

    code = "TW601"
    name = "merge-no-dedup"
    severity = "warning"
    BAD = (
        Case(
            "MERGE INTO dim d USING staging s ON d.id = s.id\nWHEN MATCHED THEN UPDATE SET d.name = s.name\n"
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name);\n",
            "dim.sql",
            lines=(1,),
        ),
    )
    GOOD = (
        Case(
            "MERGE INTO dim d USING (\n  SELECT * FROM staging QUALIFY row_number() OVER (PARTITION BY id "
            "ORDER BY version DESC, batch) = 1\n"
            ") s ON d.id = s.id\nWHEN MATCHED THEN UPDATE SET d.name = s.name\nWHEN NOT MATCHED THEN "
            "INSERT (id, name) VALUES (s.id, s.name);\n",
            "dim.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            shape = write.merge
            if shape is None or shape.source_unique or not shape.inserts:
                continue
            if shape.source.strip() == "" and shape.source_unique is None and write.call != "MERGE":
                continue
            conflict = write.call == "INSERT … ON CONFLICT"
            harm = (
                "a key that occurs twice fails the statement or takes either row."
                if conflict
                else "a new key that occurs twice is inserted twice, an existing one fails or takes either row."
            )
            yield self.finding(
                file,
                write.place,
                f"Nothing makes {shape.source or 'the source'} unique before it is merged into "
                f"{target_of(write)}: {harm}",
                "Keep one row per key first: row_number() over (partition by key order by version desc, tiebreak) = 1.",
                declaration=merges(write),
                severity="info" if conflict and write.engine == "postgres" else None,
            )
