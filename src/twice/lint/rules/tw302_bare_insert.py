from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Severity
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import SAFE, merges, target_of
from twice.lint.vocabulary import is_mark, is_staging, same_table


class BareInsert(Rule):
    """INSERT INTO without anything that recognises the rows of an earlier run.

    What it does
        Finds INSERT statements, in SQL files and in strings, that have no conflict clause, no anti-join,
        and no delete of the same target before them.

    Why it breaks a re-run
        The second run inserts the same rows again. Where a unique key exists it fails instead, half-way.

    When it is fine
        Temporary tables, tables made in the same script, stores that replace by key, and log tables that
        want one row per run. These are recognised; `upsert_targets` in the settings names further ones.
    """

    code = "TW302"
    name = "bare-insert"
    severity = "error"
    BAD = (
        Case("INSERT INTO mart.sales\nSELECT * FROM staging.sales;\n", "load.sql", lines=(1,)),
        Case(
            "def load(cur, rows):\n"
            "    for row in rows:\n"
            '        cur.execute("INSERT INTO sales (id, amount) VALUES (%s, %s)", row)\n',
            lines=(3,),
        ),
        Case(
            'songplay_table_insert = ("""\n'
            "    INSERT INTO songplays (start_time, user_id)\n"
            "    VALUES (%s, %s)\n"
            '""")\n',
            "sql_queries.py",
            lines=(2,),
        ),
    )
    GOOD = (
        Case(
            "INSERT INTO mart.sales (id, amount)\n"
            "SELECT id, amount FROM staging.sales\n"
            "ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount;\n",
            "load.sql",
        ),
        Case(
            "BEGIN;\n"
            "DELETE FROM mart.sales WHERE day = '{{ ds }}';\n"
            "INSERT INTO mart.sales SELECT * FROM staging.sales WHERE day = '{{ ds }}';\n"
            "COMMIT;\n",
            "load.sql",
        ),
        Case(
            "INSERT INTO dim SELECT s.* FROM stg s LEFT JOIN dim d ON d.id = s.id WHERE d.id IS NULL;\n",
            "load.sql",
        ),
        Case("CREATE TEMP TABLE fresh AS SELECT 1 AS id;\nINSERT INTO fresh SELECT 2;\n", "load.sql"),
    )

    def check(self, file: FileFacts, project: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if write.verb != "insert" or write.guards & SAFE:
                continue
            if is_mark(write.target) or "callback" in write.place.within or "except" in write.place.within:
                continue
            key = next((columns for table, columns in project.keys.items() if same_table(table, write.target)), ())
            severity: Severity = "error"
            if (
                key
                or write.kept_in
                or "constant_rows" in write.guards
                or "run_path" in write.guards
                or is_staging(write.target)
            ):
                severity = "warning"
            where = target_of(write)
            if key:
                what = f"{where} has the key ({', '.join(key)}), so the second run stops with an error, half-way."
            else:
                what = f"{where} gets the same rows again on each run: (42, 9.90) is there once, then twice."
            yield self.finding(
                file,
                write.place,
                f"`INSERT INTO` with no conflict clause, no anti-join and no delete before it: {what}",
                "Use `INSERT … ON CONFLICT (key) DO UPDATE` or MERGE, or delete the run's slice in the "
                "same transaction first.",
                declaration=merges(write),
                severity=severity,
            )
