from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class ArbitrarySurvivor(Rule):
    """Of several rows with one key, any may be kept.

    What it does
        Finds `dropDuplicates([...])`, pandas' `drop_duplicates(subset=…)` without a sort, and DISTINCT ON
        without ORDER BY.

    Why it breaks a re-run
        Which row comes first depends on files, partitions and timing. The first run keeps (42, paid), the
        second (42, open).

    When it is fine
        When the subset is all columns, so that the duplicates are equal; this is recognised for a select
        just before.
    """

    code = "TW603"
    name = "arbitrary-survivor"
    severity = "warning"
    BAD = (
        Case(
            'from pyspark.sql import SparkSession\n\ndef users(df):\n    return df.dropDuplicates(["user_id"])\n',
            lines=(4,),
        ),
        Case("SELECT DISTINCT ON (user_id) user_id, level FROM events;\n", "users.sql", lines=(1,)),
    )
    GOOD = (
        Case(
            "from pyspark.sql import SparkSession\n\n"
            'def users(df):\n    return df.select("user_id", "level").dropDuplicates(["user_id", "level"])\n',
        ),
        Case(
            "SELECT DISTINCT ON (user_id) user_id, level FROM events ORDER BY user_id, ts DESC, event_id;\n",
            "users.sql",
        ),
        Case(
            "import pandas as pd\n\n"
            'def users(df):\n    ordered = df.sort_values(["user_id", "ts"])\n'
            '    return ordered.drop_duplicates(subset=["user_id"], keep="last")\n',
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for order in file.orders:
            if order.kind != "survivor":
                continue
            key = ", ".join(order.columns[:3]) or "the key"
            yield self.finding(
                file,
                order.place,
                f"`{order.call}` keeps any one row for each ({key}): (42, paid) in the first run, (42, "
                "open) in the second.",
                "Choose the row: row_number() over (partition by key order by version desc, tiebreak) = 1.",
                declaration='write=merge(key=[…], newest_by="<version>")  # one row per key by a total order',
            )
