from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class EngineRowId(Rule):
    """A row number the engine hands out by partition and arrival is used as an id or an order.

    What it does
        Finds `monotonically_increasing_id`, `zipWithIndex`, `zipWithUniqueId`, `ctid` and `ROWID`.

    Why it breaks a re-run
        The number depends on how the rows were spread over tasks. After a retry, with other files or on
        another cluster, the same row gets another number.

    When it is fine
        Inside one query, when the number is dropped before anything is stored.
    """

    code = "TW202"
    name = "engine-row-id"
    severity = "error"
    BAD = (
        Case(
            "from pyspark.sql.functions import monotonically_increasing_id\n\n"
            'def build(df):\n    df = df.withColumn("songplay_id", monotonically_increasing_id())\n'
            '    df.write.mode("overwrite").parquet("out")\n',
            lines=(4,),
        ),
    )
    GOOD = (
        Case(
            "from pyspark.sql import functions as F\n\n"
            'def build(df):\n    return df.withColumn("songplay_id", F.xxhash64("user_id", "start_time"))\n'
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for fact in file.ids:
            if fact.kind != "engine_row":
                continue
            column = f"`{fact.column}`" if fact.column else "the row"
            yield self.finding(
                file,
                fact.place,
                f"`{fact.call}` numbers rows by partition and arrival: {column} is 17 for a row today and 8589934609 "
                "for the same row after a retry.",
                "Hash the business key (`xxhash64`, `sha2`), or number over a total order of business columns.",
                declaration=f'.withColumn("{fact.column or "id"}", surrogate_key("<business key columns>"))',
            )
