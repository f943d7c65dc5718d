from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Severity
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import SAFE, merges, target_of
from twice.lint.vocabulary import is_staging


class CopyAgain(Rule):
    """COPY or LOAD into a permanent table can load the same file again.

    What it does
        Finds COPY and LOAD DATA into permanent tables that nothing empties first, and Snowflake's `FORCE =
        TRUE`.

    Why it breaks a re-run
        COPY appends. The file of 9 June, loaded by the run and by its retry, is in the table twice.

    When it is fine
        Temporary and emptied staging tables. Snowflake remembers loaded files for 64 days unless FORCE is
        set.
    """

    code = "TW306"
    name = "copy-force"
    severity = "warning"
    BAD = (
        Case(
            "COPY sales FROM 's3://bucket/sales/' IAM_ROLE 'arn:aws:iam::1:role/r' CSV;\n",
            "load.sql",
            lines=(1,),
        ),
        Case("COPY INTO sales FROM @stage/sales FORCE = TRUE;\n", "load.sql", lines=(1,)),
    )
    GOOD = (
        Case(
            "TRUNCATE TABLE staging_sales;\n"
            "COPY staging_sales FROM 's3://bucket/sales/' IAM_ROLE 'arn:aws:iam::1:role/r' CSV;\n",
            "load.sql",
        ),
        Case("COPY INTO sales FROM @stage/sales;\n", "load.sql"),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if write.verb != "copy" or write.guards & SAFE:
                continue
            severity: Severity = "warning"
            where = target_of(write)
            why = "FORCE makes the database forget that it has loaded the file" if write.forced else "COPY appends"
            yield self.finding(
                file,
                write.place,
                f"{why}: the same file loaded by a run and by its retry is in {where} twice.",
                "Load into a temporary table, then merge on the key; or empty the slice in the same transaction first.",
                declaration=merges(write),
                severity=severity,
            )


__all__ = ["CopyAgain", "is_staging"]
