from __future__ import annotations

from collections.abc import Iterator

from twice.lint.facts import ClockFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related
from twice.lint.rules.rule import Case, Rule

_WHAT = {
    "filter": "decides which rows are taken",
    "path": "is part of the path or name that is read or written",
    "window": "is the period that is requested",
}


class ClockAsScope(Rule):
    """A clock decides which data a run reads or writes.

    What it does
        Finds `datetime.now()`, `date.today()`, `CURRENT_DATE` and their relatives where their value reaches
        a filter, a path, a table name or the period of a request, directly or through variables.

    Why it breaks a re-run
        A retry after midnight, a re-run next week and a backfill all ask for another day than the run that
        failed. The failed day is never repaired, and today is loaded twice.

    When it is fine
        Deleting old rows, freshness checks and cache lifetimes are about now on purpose. They are not
        reported when they only look at data or only delete.
    """

    code = "TW101"
    name = "clock-as-scope"
    severity = "error"
    BAD = (
        Case(
            "from datetime import date\n"
            "from pyspark.sql import functions as F\n"
            "\n"
            "def load(spark):\n"
            "    today = date.today()\n"
            '    df = spark.table("orders").where(F.col("day") == today)\n'
            '    df.write.mode("overwrite").saveAsTable("orders_today")\n',
            lines=(5,),
        ),
        Case(
            "INSERT INTO mart.daily\nSELECT * FROM orders\nWHERE order_date = CURRENT_DATE - 1;\n",
            "daily.sql",
            lines=(3,),
        ),
        Case(
            "import requests\nfrom datetime import datetime, timedelta\n\n"
            "def fetch():\n    since = (datetime.utcnow() - timedelta(days=1)).isoformat()\n"
            '    return requests.get("https://api.example.com/orders", params={"since": since}).json()\n',
            lines=(5,),
        ),
    )
    GOOD = (
        Case(
            "from pyspark.sql import functions as F\n\n"
            'def load(spark, run_date):\n    df = spark.table("orders").where(F.col("day") == run_date)\n'
            '    df.write.mode("overwrite").saveAsTable("orders_of_the_day")\n',
        ),
        Case("DELETE FROM audit.trail WHERE created_at < CURRENT_DATE - 90;\n", "cleanup.sql"),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for clock in file.clocks:
            if clock.use not in _WHAT or "callback" in clock.place.within:
                continue
            if clock.use == "filter" and _only_removes(file, (clock.reaches or clock.place.span).line):
                continue
            related: tuple[Related, ...] = ()
            if clock.reaches is not None and clock.reaches.line != clock.place.span.line:
                where = clock.reaches
                related = (Related(file.path, where.line, where.column, "here it decides what the run works on"),)
            yield self.finding(
                file,
                clock.place,
                f"`{clock.call}` {_WHAT[clock.use]}: a run for 9 June repeated on 11 June works on 11 June. "
                "The failed day stays wrong and another day is touched instead.",
                "Take the date as a required argument of the run (`run_date`, `{{ ds }}`, `data_interval_start`).",
                declaration='@task(…, scope=Daily("<date column>", start=…))  # the slice comes from --date',
                related=related,
                severity="error" if _certain(file, clock) else "info" if _only_looks(file, clock) else "warning",
            )


def _only_removes(file: FileFacts, line: int) -> bool:
    """The clock is in a DELETE: retention, not scope."""
    before = [write for write in file.writes if write.place.span.line <= line]
    return bool(before) and max(before, key=lambda write: write.place.span.line).verb in ("delete", "update")


def _only_looks(file: FileFacts, clock: ClockFact) -> bool:
    """A query in a SQL file that stores nothing: a report or a check, unless something else stores its answer."""
    return "query" in clock.place.within and file.language == "sql" and not file.writes


def _certain(file: FileFacts, clock: ClockFact) -> bool:
    """Something is written from it; a query that only looks, or a file that writes nothing, gets a warning."""
    if "query" in clock.place.within and file.language == "sql":
        return False
    return bool(file.writes) or clock.use == "path" or bool(file.models)
