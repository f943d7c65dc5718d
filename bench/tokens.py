"""What one token per slice costs as a table grows old: 100 slices, ten years of days, ten years of hours.

*look* asks for one slice's generation in a process that has not read the table before; the other side is Delta's own
answer, a Spark job over the log. *publish* stages and commits one small day; the other side is a hand-written
`replaceWhere` of the same rows into a table that has no tokens at all.
"""

from __future__ import annotations

import json
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from bench.measuring import Row, arguments, interleaved, report

from twice.core.ports import Column, Landed, Shape
from twice.core.scope import Daily
from twice.core.slice import WHOLE
from twice.core.table.token import CommitNote, token_name
from twice.core.task import TableName
from twice.core.write import AppendRows, Layout, ReplaceRows, WritePlan
from twice.engine.session.session import close, embedded, run_session
from twice.engine.session.spark_conf import SessionSettings
from twice.targets.active_session import as_active_session
from twice.targets.delta.log.log import Log
from twice.targets.delta.target import DeltaTarget
from twice.wiring.delta import delta_target

COUNTS = (100, 3_650, 87_600)
DAILY = Daily("order_date", start="2000-01-01")
COLUMNS = (Column("order_date", "date"), Column("region", "string"), Column("revenue", "decimal(12,2)"))
BEFORE = date(2026, 1, 1)


class Aged:
    """A table whose log remembers `count` published slices, checkpointed, and a twin without tokens."""

    def __init__(self, spark: Any, root: Path, count: int) -> None:
        self.spark, self.root, self.count = spark, root, count
        self.name, self.twin = TableName(f"bench.tokens_{count}"), TableName(f"bench.plain_{count}")
        for table in (self.name, self.twin):
            self._make(table)
        self._grow_old()
        self.publish(0)

    def target(self) -> DeltaTarget:
        return delta_target(run_session(self.spark), self.locate)

    def _make(self, table: TableName) -> None:
        """Empty, by a commit that has one token and no rows."""
        target = self.target()
        into = target.prepare(table, Shape(COLUMNS), Layout(DAILY.held_in), False)
        staged = target.stage(table, None, WritePlan(AppendRows((WHOLE,)), (WHOLE,), ("bench",)), "make", into=into)
        target.commit(staged, {"bench": 0}, CommitNote("make", "run", {"bench": 1}))

    def locate(self, table: TableName) -> str:
        return str(self.root / table.name.replace(".", "/"))

    def _grow_old(self) -> None:
        """One commit with all tokens, written in Delta's published format: one by one would take hours."""
        info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE", "txnId": "bench"}}
        tokens = (
            {"txn": {"appId": f"twice/bench/old/{at}", "version": 1, "lastUpdated": at}} for at in range(self.count)
        )
        lines = [json.dumps(line, separators=(",", ":")) for line in (info, *tokens)]
        folder = Path(self.locate(self.name)) / "_delta_log"
        (folder / f"{1:020d}.json").write_text("\n".join(lines) + "\n")
        session = run_session(self.spark)
        with as_active_session(session):
            log = Log(session, self.locate(self.name))
            log.table()
            log._log.checkpoint()

    def frame(self, session: Any, day: str) -> Any:
        return session.sql(
            f"SELECT DATE '{day}' order_date, 'eu' region, CAST(id AS DECIMAL(12,2)) revenue FROM range(0, 1000, 1, 1)"
        )

    def publish(self, turn: int) -> None:
        target, slice_ = self.target(), DAILY.slice_of(_day(turn))
        plan = WritePlan(ReplaceRows((slice_,)), (slice_,), (token_name("bench", "new", slice_.label),))
        expected = target.published(self.name, plan.token_names).generations
        staged = target.stage(self.name, self.frame(target._session, slice_.label), plan, f"turn-{turn}")
        note = CommitNote(staged.attempt, "run", {app: generation + 1 for app, generation in expected.items()})
        if not isinstance(target.commit(staged, expected, note), Landed):
            raise AssertionError("the bench has no rival")

    def hand_written(self, turn: int) -> None:
        session, day = run_session(self.spark), _day(turn)
        writer = self.frame(session, day).write.format("delta").mode("overwrite")
        writer.option("replaceWhere", f"order_date = DATE '{day}'").save(self.locate(self.twin))

    def look(self, turn: int) -> None:
        self._forget()
        target = self.target()
        found = target.published(self.name, [f"twice/bench/old/{turn}"]).generations
        assert list(found.values()) == [1], found

    def look_by_job(self, turn: int) -> None:
        self._forget()
        session = run_session(self.spark)
        with as_active_session(session):
            recorded = Log(session, self.locate(self.name))._fresh().transactions()
            assert recorded.get(f"twice/bench/old/{turn}").isDefined()

    def sizes(self) -> str:
        folder = Path(self.locate(self.name)) / "_delta_log"
        checksum = max(folder.glob("[0-9]*.crc"), key=lambda path: path.name).stat().st_size
        checkpoint = sum(path.stat().st_size for path in folder.glob("*.checkpoint*.parquet"))
        return f"{self.count} tokens: checkpoint {checkpoint / 1024:.0f} KiB, last checksum {checksum / 1024:.0f} KiB"

    def _forget(self) -> None:
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spark = embedded(SessionSettings(root / "spark", root, archive="use"))
        try:
            for count in COUNTS:
                aged = Aged(spark, root, count)
                rows.append(
                    Row(
                        f"look, {count} tokens, against Delta's job",
                        *interleaved(aged.look, aged.look_by_job, options.rounds),
                        1.0,
                    )
                )
                rows.append(
                    Row(
                        f"publish, {count} tokens, against replaceWhere",
                        *interleaved(aged.publish, aged.hand_written, options.rounds),
                        1.15,
                        0.5,
                    )
                )
                print(aged.sizes(), flush=True)
        finally:
            close(spark)
    report(rows, options.json)


def _day(turn: int) -> str:
    return (BEFORE + timedelta(days=turn)).isoformat()


if __name__ == "__main__":
    main()
