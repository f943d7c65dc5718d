from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import replaces, target_of

_SCOPED = frozenset({"dynamic_overwrite", "replace_where", "temporary", "run_path"})


class StaticPartitionOverwrite(Rule):
    """A run that computes one slice overwrites all partitions.

    What it does
        Finds `mode("overwrite")` with `partitionBy`, and `insertInto(overwrite=True)`, where neither
        dynamic overwrite nor `replaceWhere` limits what is replaced. It is an error where the rows are
        visibly one slice of time.

    Why it breaks a re-run
        Spark's overwrite is static by default: it deletes every partition of the table, then writes the
        ones it has. Re-running one day leaves one day.

    When it is fine
        A full rebuild: the frame holds all partitions. Without a sign of a slice this is information only.
    """

    code = "TW401"
    name = "static-partition-overwrite"
    severity = "error"
    BAD = (
        Case(
            "def save(df, run_date):\n    day = df.where(df.ds == run_date)\n"
            '    day.write.mode("overwrite").partitionBy("ds").saveAsTable("sales")\n',
            lines=(3,),
        ),
    )
    GOOD = (
        Case(
            "def save(df, run_date):\n"
            "    day = df.where(df.ds == run_date)\n"
            '    day.write.mode("overwrite").option("replaceWhere", f"ds = '
            '\'{run_date}\'").saveAsTable("sales")\n',
        ),
        Case(
            "def save(spark, df, run_date):\n"
            '    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")\n'
            "    df.where(df.ds == "
            'run_date).write.mode("overwrite").partitionBy("ds").saveAsTable("sales")\n',
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if write.verb != "overwrite" or write.engine != "spark" or write.guards & _SCOPED:
                continue
            into = "insertInto" in write.call
            if not write.partition_by and not into:
                continue
            by = f" by {', '.join(write.partition_by)}" if write.partition_by else ""
            yield self.finding(
                file,
                write.place,
                f"Static overwrite of {target_of(write)}, partitioned{by}: a run with one day's rows "
                "deletes all other days. "
                "365 partitions before, 1 after.",
                'Set `spark.sql.sources.partitionOverwriteMode` to "dynamic", or give the write a `replaceWhere`.',
                declaration=replaces(write),
                severity="error" if write.sliced else "info",
            )
