from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Severity
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import SAFE, replaces, target_of
from twice.lint.vocabulary import is_staging, names_an_attempt

_SOFT = ("orm", "file", "kafka", "sheet", "glue")
"""Where rows added twice are often wanted, or cleared elsewhere."""


class BareAppend(Rule):
    """Rows are appended and nothing recognises the rows of an earlier run.

    What it does
        Finds Spark's `mode("append")` and `insertInto`, pandas' `if_exists="append"`, BigQuery's
        WRITE_APPEND and streaming inserts, Mongo inserts, `write_pandas`, files opened with "a" and their
        relatives.

    Why it breaks a re-run
        A retry, a re-run or a backfill of the same day adds the same rows again. Sums double, silently.

    When it is fine
        When the same target is emptied of the same scope first, when only rows that are not there yet are
        written, when the path names the run, or when the store replaces by key. These are recognised.
    """

    code = "TW301"
    name = "bare-append"
    severity = "error"
    BAD = (
        Case('def save(df, path):\n    df.write.mode("append").parquet(path)\n', lines=(2,)),
        Case(
            'def save(df, engine):\n    df.to_sql("sales", engine, if_exists="append", index=False)\n',
            lines=(2,),
        ),
        Case(
            "from google.cloud import bigquery\n"
            "\n"
            "def load(client, uri):\n"
            "    config = bigquery.LoadJobConfig(\n"
            "        write_disposition=bigquery.WriteDisposition.WRITE_APPEND,\n"
            "    )\n"
            '    client.load_table_from_uri(uri, "shop.sales", job_config=config).result()\n',
            lines=(5,),
        ),
        Case(
            'def save(df, ds):\n    df.write.mode("append").parquet(f"s3://lake/sales/ds={ds}/")\n',
            lines=(2,),
        ),
    )
    GOOD = (
        Case(
            "def save(df, engine, day):\n    with engine.begin() as conn:\n"
            '        conn.execute("DELETE FROM sales WHERE day = %s", (day,))\n'
            '        df.to_sql("sales", conn, if_exists="append", index=False)\n',
        ),
        Case('def save(df, run_id):\n    df.write.mode("append").parquet(f"s3://lake/sales/run={run_id}/")\n'),
        Case('def save(df):\n    df.write.format("org.apache.spark.sql.cassandra").mode("append").save()\n'),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if write.verb != "append" or write.guards & SAFE or "foreach_batch" in write.place.within:
                continue
            if "callback" in write.place.within or "except" in write.place.within:
                continue
            if names_an_attempt(write.target):
                continue
            uncertain = write.engine in _SOFT or "parameter" in write.place.within or is_staging(write.target)
            severity: Severity = "warning" if uncertain else "error"
            where = target_of(write)
            yield self.finding(
                file,
                write.place,
                f"`{write.call}` adds to {where} whatever is there already: 3 rows after the first run, 6 after the "
                "second, and nothing reports it.",
                "Replace the run's own slice (overwrite its partition, or delete it in the same "
                "transaction), or merge on a key.",
                declaration=replaces(write),
                severity=severity,
            )
