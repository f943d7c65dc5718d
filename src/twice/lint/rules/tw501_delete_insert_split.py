from __future__ import annotations

from collections.abc import Iterator

from twice.lint.facts import WriteFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related, Severity
from twice.lint.guards import ADDING, emptied_by
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import replaces, target_of
from twice.lint.vocabulary import is_staging


class DeleteInsertSplit(Rule):
    """A table is emptied and filled again, and the two do not commit together.

    What it does
        Finds DELETE or TRUNCATE followed by INSERT, COPY or an append of the same target, in two calls, two
        tasks or two jobs without one transaction around them.

    Why it breaks a re-run
        A crash between the two leaves the slice empty, and readers see it empty meanwhile. Two runs at once
        both delete, then both insert: every row twice.

    When it is fine
        One BEGIN … COMMIT, one `with engine.begin()`, one cursor with one commit at the end: these are
        recognised. A staging table that nobody reads may be empty.
    """

    code = "TW501"
    name = "delete-insert-split"
    severity = "error"
    BAD = (
        Case(
            "from airflow.providers.postgres.hooks.postgres import PostgresHook\n"
            "\n"
            "def load(ds):\n"
            "    hook = PostgresHook()\n"
            "    hook.run(f\"DELETE FROM mart.sales WHERE day = '{ds}'\")\n"
            "    hook.run(f\"INSERT INTO mart.sales SELECT * FROM staging.sales WHERE day = '{ds}'\")\n",
            lines=(5,),
        ),
        Case(
            "import psycopg2\n"
            "\n"
            "def load(conn, rows):\n"
            "    cur = conn.cursor()\n"
            '    cur.execute("TRUNCATE TABLE mart.sales")\n'
            "    conn.commit()\n"
            '    cur.executemany("INSERT INTO mart.sales VALUES (%s, %s)", rows)\n'
            "    conn.commit()\n",
            lines=(5,),
        ),
    )
    GOOD = (
        Case(
            "import psycopg2\n\ndef load(conn, rows, day):\n    with conn:\n        cur = conn.cursor()\n"
            '        cur.execute("DELETE FROM mart.sales WHERE day = %s", (day,))\n'
            '        cur.executemany("INSERT INTO mart.sales VALUES (%s, %s)", rows)\n',
        ),
        Case(
            "BEGIN;\nTRUNCATE mart.sales;\nINSERT INTO mart.sales SELECT * FROM staging.sales;\nCOMMIT;\n",
            "load.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        reported: set[int] = set()
        for write in file.writes:
            if write.verb not in ADDING or write.guards & {
                "temporary",
                "delete_atomic",
                "fresh",
                "conflict_clause",
                "anti_join",
            }:
                continue
            for delete in emptied_by(write, file):
                severity = _severity(delete, write, file)
                line = delete.place.span.line
                if severity is None or line in reported:
                    continue
                reported.add(line)
                yield self._of(file, delete, write, severity)

    def _of(self, file: FileFacts, delete: WriteFact, write: WriteFact, severity: Severity) -> Finding:
        where = target_of(write)
        span = write.place.happens
        spark = write.engine in ("spark", "hive", "databricks")
        fix = (
            "Use one INSERT OVERWRITE or `replaceWhere`: Spark has no transaction around two statements."
            if spark
            else "Put both statements into one transaction (BEGIN … COMMIT, `with engine.begin()`), or use MERGE."
        )
        return self.finding(
            file,
            delete.place.happens,
            f"{delete.call} of {where} and the {write.call} that fills it commit separately: a crash in "
            "between leaves no rows, and two "
            "runs at once insert everything twice.",
            fix,
            declaration=replaces(write),
            related=(Related(file.path, span.line, span.column, "the rows come back here"),),
            severity=severity,
        )


def _severity(delete: WriteFact, write: WriteFact, file: FileFacts) -> Severity | None:
    one, other = delete.place, write.place
    certain: Severity = "warning" if is_staging(write.target) else "error"
    if one.unit == "<constants>" or other.unit == "<constants>":
        return None
    if one.unit != other.unit:
        if one.unit.startswith("task ") and other.unit.startswith("task "):
            return certain
        commits = {fact.place.unit for fact in file.transactions if fact.kind == "commit"}
        alone = one.transaction == "" or one.transaction.startswith(("call:", "with:")) or one.unit in commits
        return "warning" if alone else None
    if "?" in (one.transaction, other.transaction):
        return "warning" if file.language == "sql" or "" in (one.transaction, other.transaction) else None
    if one.transaction == other.transaction != "":
        return None
    if file.language == "sql":
        if write.engine in ("bigquery", "spark", "hive", "snowflake"):
            return certain
        # A plain script may be run inside one transaction by whoever calls it; Airflow's hooks do, unless set not to.
        return "info" if "airflow_template" in file.traits else "warning"
    return certain
