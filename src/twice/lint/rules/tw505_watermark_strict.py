from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class WatermarkStrict(Rule):
    """New rows are those later than the newest stored one: equal and late rows are lost.

    What it does
        Finds `> (SELECT max(col) FROM target)`.

    Why it breaks a re-run
        Two rows with the same time stamp, one committed after the load: it is never seen. A late row is
        never seen either.

    When it is fine
        Strictly growing ids.
    """

    code = "TW505"
    name = "watermark-strict"
    severity = "warning"
    preview = True
    BAD = (Case("INSERT INTO t SELECT * FROM s WHERE ts > (SELECT max(ts) FROM t);\n", "t.sql", lines=(1,)),)
    GOOD = (
        Case(
            "MERGE INTO t USING (SELECT id, max(ts) AS ts FROM s GROUP BY id) s ON t.id = s.id WHEN NOT "
            "MATCHED THEN INSERT (id, ts) VALUES (s.id, s.ts);\n",
            "t.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        spans = [read.place.span for read in file.reads if read.strict_mark]
        spans += [model.strict_mark for model in file.models if model.strict_mark is not None]
        for span in spans:
            yield self.finding(
                file,
                span,
                "`> max(…)` of the target: a row with the same stamp that was committed a moment later is "
                "never loaded, nor is a late one.",
                "Use `>=` with a look-back, and a unique key so that rows read again do no harm.",
                declaration='scope=Since("<cursor>", initial=…, lag=…), write=merge(key=[…])',
            )
