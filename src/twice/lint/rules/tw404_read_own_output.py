from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import target_of
from twice.lint.vocabulary import same_table


class ReadOwnOutput(Rule):
    """A job overwrites the table or path it reads.

    What it does
        Finds overwrites whose rows come from the same target.

    Why it breaks a re-run
        A failure while writing loses input and output together. The second run starts from the result of
        the first: what it adds is added twice.

    When it is fine
        Table formats with snapshots, where the read is pinned.
    """

    code = "TW404"
    name = "read-own-output"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "def dedupe(spark):\n    df = spark.read.parquet('lake/users')\n    "
            "df.distinct().write.mode('overwrite').parquet('lake/users')\n",
            "job.py",
            lines=(3,),
        ),
    )
    GOOD = (
        Case(
            "def dedupe(spark):\n    df = spark.read.parquet('lake/users')\n    "
            "df.distinct().write.mode('overwrite').parquet('lake/users_clean')\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if write.verb != "overwrite" or not write.target:
                continue
            if any(same_table(read, write.target) for read in write.reads):
                yield self.finding(
                    file,
                    write.place,
                    f"{target_of(write)} is overwritten with rows read from itself: a failure in between "
                    "loses both, and the next run "
                    "starts from this run's result.",
                    "Write to a new place and exchange the two, or keep the history in its own table.",
                )
