"""One publish by a Spark that tries tasks again, in a process of its own: the shared session's Spark never does.

    python -m tests.processes.twins_process URL MASTER FOLDER

The first attempt of partition 0 commits its take, and then fails (a master that retries) or does not end (one that
speculates: the file FOLDER/slow says so). Every take is noted in FOLDER/takes; what came of it is written to
FOLDER/report.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from twice.core.ports import Column, Landed, Shape
from twice.core.scope import Whole
from twice.core.table.token import CommitNote
from twice.core.task import TableName
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.engine.session.session import close, embedded, run_session
from twice.engine.session.spark_conf import SessionSettings
from twice.targets.postgres.frames import spark as frames
from twice.targets.postgres.server.server import Server
from twice.targets.postgres.target import PostgresTarget
from twice.targets.postgres.write.stage import Loading, Taken, copy_part

TABLE = TableName("shop.twins", "postgres")
ROWS, PARTS = 1000, 4
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def troubled(folder: Path) -> Any:
    """`copy_part`, failing after the commit: nobody learns of the first take of partition 0."""

    def copying(loading: Loading, batches: Iterator[Any]) -> Taken:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        taken = copy_part(loading, batches)
        with (folder / "takes").open("a") as noted:
            noted.write(f"{context.partitionId()} {context.attemptNumber()} {taken.take}\n")
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            if not (folder / "slow").exists():
                raise RuntimeError("the executor is gone after its commit")
            time.sleep(60)  # far longer than its twin needs; Spark ends it when that one is done
        return taken

    return copying


def main() -> None:
    url, master, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    conf = {"spark.master": master, **(EAGER if (folder / "slow").exists() else {})}
    frames.copy_part = troubled(folder)  # type: ignore[attr-defined] # what the frames import it as
    base = embedded(SessionSettings(folder / "spark", folder / "tables", short_jobs=True, archive="use", conf=conf))
    session = run_session(base)
    target = PostgresTarget(Server("postgres", url), frames.SparkFrames(session, PARTS))
    plan = WritePlan(ReplaceRows((Whole().only,)), (Whole().only,), ("twins",))
    into = target.prepare(TABLE, Shape((Column("id", "bigint"),)), Layout(), False)
    staged = target.stage(TABLE, session.range(ROWS).repartition(PARTS), plan, "a", into=into)
    with psycopg.connect(url) as connection:
        manifest = [take for (take,) in connection.execute("SELECT take FROM twice.takes").fetchall()]
    end = target.commit(staged, {"twins": 0}, CommitNote("a", "run", {"twins": 1}))
    reported = {"staged": staged.rows, "manifest": manifest, "landed": isinstance(end, Landed)}
    (folder / "report.json").write_text(json.dumps(reported))
    close(base)


if __name__ == "__main__":
    main()
