"""A warm process that forks a child for each job on a PostgreSQL target, so that children can really be killed.

It reads one JSON command per line and answers with one JSON line each; it never connects to a server itself.
    {"do": "run", "task": …, "day": index, "kill": failpoint or null, "after": seconds or null}   -> {"status": …}
    {"do": "race", "round": number, "racers": n}                                                   -> {"ends": […]}
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.proof.postgres_shop import COLUMNS, DAILY, day, open_context, run, target_of

from twice.core.failure.failpoints import Point, armed, kill_at
from twice.core.ports import Landed, Shape
from twice.core.table.token import CommitNote, token_name
from twice.core.task import TableName
from twice.core.write import Layout, ReplaceRows, WritePlan
from twice.targets.memory.rows import Rows

RACED = TableName("shop.raced")


def forked(job: Any) -> int:
    """The child's process id. It leads a group of its own: a kill takes it and nobody else."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            job()
            code = 0
        finally:
            os._exit(code)
    return child


def run_one(url: str, ledger: Path, command: dict[str, Any]) -> int:
    def job() -> None:
        context = open_context(url, ledger, command["day"] + 1)
        if command.get("kill"):
            with armed(kill_at(Point(command["kill"]))):
                run(context, command["task"], command["day"])
        else:
            run(context, command["task"], command["day"])

    child = forked(job)
    if command.get("after") is not None:
        time.sleep(command["after"])  # the moment of the kill is the test's choice, whatever the child does then
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def race(url: str, command: dict[str, Any]) -> list[dict[str, Any]]:
    """So many processes stage the same slice for the same generation, and commit at one signal."""
    slice_ = DAILY.slice_of(day(command["round"]))
    plan = WritePlan(ReplaceRows((slice_,)), (slice_,), (token_name("proof", "raced", slice_.label),))
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()

    def job(number: int) -> None:
        os.close(go_write)
        target, attempt = target_of(url), f"round{command['round']}_{number}"
        into = target.prepare(RACED, Shape(COLUMNS), Layout(DAILY.held_in), False)
        rows = tuple((number * 10 + at, slice_.start.date(), number) for at in range(number + 1))
        staged = target.stage(RACED, Rows(COLUMNS, rows), plan, attempt, into=into)
        os.write(ready_write, b".")
        os.read(go_read, 1)  # until the other end is closed
        end = target.commit(staged, {plan.token_names[0]: 0}, CommitNote(attempt, "run", {plan.token_names[0]: 1}))
        if not isinstance(end, Landed):
            target.discard(RACED, attempt, (slice_,))
        os.write(ready_write, (json.dumps({"number": number, "end": type(end).__name__}) + "\n").encode())

    children = [forked(lambda number=number: job(number)) for number in range(command["racers"])]
    os.close(ready_write)
    ready = 0
    while ready < len(children):
        received = os.read(ready_read, len(children) - ready)
        assert received, "a racer died before the start"
        ready += len(received)
    os.close(go_write)
    os.close(go_read)
    output = b""
    while piece := os.read(ready_read, 4096):
        output += piece
    os.close(ready_read)
    for child in children:
        os.waitpid(child, 0)
    return [json.loads(line) for line in output.decode().splitlines()]


def main() -> None:
    url, ledger = sys.argv[1], Path(sys.argv[2])
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "run":
            print(json.dumps({"status": run_one(url, ledger, command)}), flush=True)
        else:
            print(json.dumps({"ends": race(url, command)}), flush=True)


if __name__ == "__main__":
    main()
