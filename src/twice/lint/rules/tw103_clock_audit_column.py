from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import is_only_shown


class ClockAuditColumn(Rule):
    """A clock is stored in a column that only says when the row was written.

    What it does
        Finds `current_timestamp() AS loaded_at` and its relatives; one finding for each file.

    Why it breaks a re-run
        Every row of a re-run differs from the row before, so a comparison of two runs, a checksum or a "has
        anything changed" merge sees changes everywhere.

    When it is fine
        Nearly always, as long as nothing compares, orders or deduplicates by the column. It is information.
    """

    code = "TW103"
    name = "clock-audit-column"
    severity = "info"
    BAD = (
        Case(
            "CREATE TABLE mart.x AS\nSELECT id, current_timestamp AS loaded_at FROM staging.x;\n",
            "x.sql",
            lines=(2,),
        ),
    )
    GOOD = (Case("CREATE TABLE mart.x AS\nSELECT id, updated_at FROM staging.x;\n", "x.sql"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        clocks = [c for c in file.clocks if c.use == "audit_column" and not is_only_shown(file, c.place)]
        if not clocks:
            return
        first = min(clocks, key=lambda clock: clock.place.span.line)
        more = f" (and {len(clocks) - 1} more in this file)" if len(clocks) > 1 else ""
        column = f"`{first.name}`" if first.name else "an audit column"
        yield self.finding(
            file,
            first.place,
            f"`{first.call}` fills {column}{more}: every re-run changes every row, even where the data is the same.",
            "Leave the column out of comparisons and hashes, or store the run's logical time.",
        )
