from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import is_only_shown


class ClockAsData(Rule):
    """A clock is stored in a column that identifies, orders, versions or partitions rows.

    What it does
        Finds `now()`, `current_timestamp()` and their relatives written into columns whose name says that
        they matter: effective and valid dates, snapshot and partition dates, versions, batch ids, keys and
        hashes.

    Why it breaks a re-run
        The same input gives other values each time. Rows of the second run do not match those of the first:
        history gets versions that never happened, partitions mix days, hashes and comparisons never agree.

    When it is fine
        A column that only notes when the row was written (`loaded_at`) is TW103 and information.
    """

    code = "TW102"
    name = "clock-as-data"
    severity = "error"
    BAD = (
        Case(
            "from datetime import datetime\nfrom pyspark.sql.functions import lit\n\n"
            'def build(df):\n    return df.withColumn("effective_date", lit(datetime.now()))\n',
            lines=(5,),
        ),
        Case(
            "INSERT INTO dim_customer (customer_id, valid_from)\n"
            "SELECT id, CURRENT_DATE FROM staging_customer s\n"
            "WHERE NOT EXISTS (SELECT 1 FROM dim_customer d WHERE d.customer_id = s.id);\n",
            "dim.sql",
            lines=(2,),
        ),
    )
    GOOD = (
        Case(
            "from pyspark.sql.functions import lit\n\n"
            'def build(df, run_date):\n    return df.withColumn("effective_date", lit(run_date))\n'
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for clock in file.clocks:
            if clock.use != "key_column" or is_only_shown(file, clock.place):
                continue
            column = f"`{clock.name}`" if clock.name else "a column"
            yield self.finding(
                file,
                clock.place,
                f"`{clock.call}` is stored in {column}. Run twice, the same row gets two values: "
                f"(42, {clock.name or 'at'}=09:00) and (42, {clock.name or 'at'}=09:07), and nothing that compares, "
                "orders or partitions by it agrees between runs.",
                "Store the source's own event time, or the run's logical date.",
                declaration="the slice column comes from the data; run.slice.start is the run's own time",
            )
