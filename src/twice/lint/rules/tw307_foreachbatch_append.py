from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import merges, target_of

_SAFE = frozenset(
    {"conflict_clause", "once_option", "upsert_store", "anti_join", "delete_before", "run_path", "looked_first"}
)


class ForeachBatchAppend(Rule):
    """The function of foreachBatch appends and does not use the batch id.

    What it does
        Finds appends and inserts inside functions given to `foreachBatch`, without Delta's
        `txnAppId`/`txnVersion`, a path by batch id, or a merge.

    Why it breaks a re-run
        foreachBatch runs at least once. A batch that was written but whose checkpoint was not is given to
        the function again after a restart, with the same id: its rows are appended a second time.

    When it is fine
        With Delta's idempotent-write options, or when the batch id is part of the target.
    """

    code = "TW307"
    name = "foreachbatch-append"
    severity = "error"
    BAD = (
        Case(
            'def write_batch(df, batch_id):\n    df.write.mode("append").saveAsTable("events")\n\n'
            "def start(stream):\n    stream.writeStream.foreachBatch(write_batch).start()\n",
            lines=(2,),
        ),
    )
    GOOD = (
        Case(
            "def write_batch(df, batch_id):\n"
            '    df.write.format("delta").option("txnAppId", "events").option("txnVersion", '
            'batch_id).mode("append").saveAsTable("events")\n'
            "\n"
            "def start(stream):\n"
            "    stream.writeStream.foreachBatch(write_batch).start()\n",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for write in file.writes:
            if "foreach_batch" not in write.place.within or write.verb not in ("append", "insert", "copy"):
                continue
            if write.guards & _SAFE:
                continue
            yield self.finding(
                file,
                write.place,
                "A batch is given to this function again after a restart, with the same id, and its rows "
                "are appended to "
                f"{target_of(write)} a second time.",
                "Merge on a key, or set Delta's `txnAppId` and `txnVersion` (the batch id) on the write.",
                declaration=merges(write),
            )
