"""Spark's own second tries, for real: a task that is retried, and one that is speculated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest
from tests.free_port import free_port
from tests.processes.command import ROOT

PARTS, ROWS = 4, 1000


def published(url: str, master: str, folder: Path) -> tuple[dict[str, Any], dict[tuple[int, int], int]]:
    """What the process reported, and its takes by partition and attempt."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.processes.twins_process", url, master, folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in (folder / "takes").read_text().splitlines()]
    return json.loads((folder / "report.json").read_text()), {(int(p), int(a)): int(take) for p, a, take in lines}


def check(url: str, reported: dict[str, Any], takes: dict[tuple[int, int], int]) -> None:
    """Spark may have tried other parts twice too; of each, one take counts."""
    assert {(0, 0), (0, 1)} <= takes.keys()  # both twins committed
    assert reported["landed"] and reported["staged"] == ROWS
    parts = {take: part for (part, attempt), take in takes.items() if (part, attempt) != (0, 0)}
    assert sorted(parts[take] for take in reported["manifest"]) == list(range(PARTS))
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM shop.twins").fetchone()
        assert found == (ROWS, ROWS, 0, ROWS - 1)
        assert connection.execute("SELECT count(*) FROM twice.takes").fetchone() == (0,)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_task_retried_after_its_commit_counts_once(database: str, tmp_path: Path) -> None:
    check(database, *published(database, "local[2,2]", tmp_path))


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_task_and_its_speculated_twin_that_both_commit_count_once(database: str, tmp_path: Path) -> None:
    """A Spark speculates only on another host than the first attempt's: a cluster of two loopback addresses."""
    (tmp_path / "slow").touch()
    with cluster(tmp_path) as master:
        check(database, *published(database, master, tmp_path))


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and a worker on each of two hosts that are this machine; its address."""
    port, page = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    workers = [
        ["worker.Worker", "--host", host, "--cores", "2", "--memory", "2g", "--work-dir", str(folder / host), address]
        for host in ("127.0.0.1", "127.0.0.2")
    ]
    with (folder / "cluster.log").open("wb") as log:
        started = [_started(master, log)]
        try:
            _wait(page, 0)
            started += [_started(worker, log) for worker in workers]
            _wait(page, len(workers))
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(30)


def _started(arguments: list[str], log: Any) -> subprocess.Popen[bytes]:
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    name, *rest = arguments
    return subprocess.Popen(
        [program, f"org.apache.spark.deploy.{name}", *rest], stdout=log, stderr=log, env=environment
    )


def _wait(page: int, workers: int) -> None:
    deadline = time.monotonic() + 100
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] >= workers:
                    return
        except OSError:
            pass
        assert time.monotonic() < deadline, "the cluster did not come up"
        time.sleep(0.2)
