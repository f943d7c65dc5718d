"""Twelve known ways to be broken, each as a small pipeline with a sound twin, and what a proof must say of both."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.proof.pipelines import jobs

from twice.core.results.proof import Proof
from twice.project.prove import prove as prove_task
from twice.proof.jobs.job import prove_job
from twice.wiring.open_project import OpenProject, open_project

PIPELINES = Path(__file__).with_name("pipelines")


@dataclass(frozen=True)
class Way:
    """`name` is that of the broken pipeline, a task or a `job`; its twin's ends in `_sound`. `scenario` shows it,
    `cause` is what must be blamed, `columns` where it must be seen."""

    name: str
    scenario: str
    cause: str
    columns: tuple[str, ...] = ()
    job: bool = False


WAYS = (
    Way("append", "twice", "append", job=True),
    Way("clock_in_data", "twice", "current_timestamp", ("loaded_at",)),
    Way("clock_in_scope", "twice", "current_timestamp"),
    Way("uuid_key", "twice", "uuid", ("key",)),
    Way("monotonic_id", "parallelism", "monotonically_increasing_id", ("key",)),
    Way("arbitrary_survivor", "row-order", "drop_duplicates", ("tag", "id")),
    Way("ties", "row-order", "ties", ("place",)),
    Way("list_order", "row-order", "collect_list", ("tags",)),
    Way("sum_of_doubles", "row-order", "sum of doubles", ("revenue",)),
    Way("static_overwrite", "others", "static overwrite", job=True),
    Way("mark_before_data", "crash", "mark before data", job=True),
    Way("unguarded_effect", "twice", "effect in the code", job=True),
)


@dataclass(frozen=True)
class Ground:
    """A project with these tasks, and a warehouse whose data shows every difference."""

    spark: Any
    project: OpenProject

    def prove(self, way: Way, sound: bool, *scenarios: str) -> Proof:
        name = f"{way.name}_sound" if sound else way.name
        if not way.job:
            return prove_task(self.project, name, jobs.DAY, scenarios)
        return prove_job(self.spark, getattr(jobs, name), ["out.totals"], self.project.settings.warehouse, scenarios)


@contextmanager
def ground(spark: Any, root: Path) -> Iterator[Ground]:
    shutil.copytree(PIPELINES, root / "pipelines", ignore=shutil.ignore_patterns("jobs.py", "__pycache__"))
    (root / "twice.toml").write_text('project = "ways"\n')
    _fill(spark, root / "warehouse")
    with _receiver() as url, open_project(root) as opened:
        os.environ[jobs.RECEIVER] = url
        yield Ground(spark, opened)


def wrong(way: Way, proof: Proof, sound: bool) -> str | None:
    """What is wrong with a proof; None if it says what it must."""
    if sound:
        return None if proof.holds else f"{proof.task} is sound, and was accused: {proof.changed or proof.trials}"
    found = [trial.difference for trial in proof.changed if trial.scenario == way.scenario]
    if not found or found[0] is None:
        return f"{proof.task} is broken, and was not caught by {way.scenario}: {proof.trials}"
    names = [cause.name for cause in found[0].causes]
    if names[:1] != [way.cause]:
        return f"{proof.task}: {way.cause} is to blame, and the proof blames {names}"
    blamed = found[0].causes[0].columns
    if blamed != way.columns or not set(blamed) <= set(found[0].columns):
        return f"{proof.task} differs in {way.columns}, and the proof blames {blamed} of {found[0].columns}"
    return None


def _fill(spark: Any, warehouse: Path) -> None:
    """Seven customers with many events each, of amounts that no two orders add up to the same; events that arrive one
    a second from now on; and totals of the day before, which a run of this day has nothing to do with."""
    now = int(datetime.now(timezone.utc).timestamp())
    events = spark.range(0, 4000, 1, 4).selectExpr(
        "id",
        "DATE'2026-06-09' AS day",
        "id % 7 AS customer",
        "concat('t', id % 13) AS tag",
        "rand(3) * 1e6 AS amount",
        f"timestamp_seconds({now} + id) AS arrives",
    )
    events.write.format("delta").partitionBy("day").save(str(warehouse / "shop" / "events"))
    before = spark.range(7).selectExpr("DATE'2026-06-08' AS day", "id AS customer", "CAST(5 AS BIGINT) AS count")
    before.write.format("delta").partitionBy("day").save(str(warehouse / "out" / "totals"))


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _receiver() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/effect"
        finally:
            server.shutdown()
