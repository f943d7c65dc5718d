"""A process that keeps eight workers at a queue, kills them at random and replaces them, until the work is done.

Run by tests/proof/test_queue.py. It imports everything once and forks: a worker is there at once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from datetime import timedelta

from sqlalchemy import Connection, text

from twice import Retry, WorkQueue
from twice.queues.item import Item, ItemStatus

WORKERS = 8
LEASE = timedelta(seconds=1)
PATIENT = Retry(attempts=100, first=timedelta(0), total=timedelta(days=1))
KILL_EVERY = (20, 80)
"""After so many further items are done, one worker dies."""


def effect(item: Item, connection: Connection) -> None:
    """No key and no check: a second time would be counted."""
    connection.execute(text("INSERT INTO effects (item, worker) VALUES (:item, :worker)"), _row(item))


def _row(item: Item) -> dict[str, object]:
    return {"item": item.id, "worker": os.getpid()}


def open_queue(url: str) -> WorkQueue:
    return WorkQueue(url, "proof", lease=LEASE, retry=PATIENT)


def left(queue: WorkQueue) -> int:
    counts = queue.counts()
    return counts[ItemStatus.PENDING] + counts[ItemStatus.PROCESSING]


def work(url: str) -> None:
    with open_queue(url) as queue:
        while True:
            queue.work(effect)
            if not left(queue):
                return
            time.sleep(0.02)


def start(url: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work(url)
    finally:
        os._exit(1 if sys.exc_info()[0] else 0)


def main(url: str, seed: str) -> None:
    chance = random.Random(int(seed))
    # Forked before the parent has a connection: a child must open its own.
    pids = [start(url) for _ in range(WORKERS)]
    kills, done_before = 0, 0
    next_kill = chance.randint(*KILL_EVERY)
    queue = open_queue(url)
    while left(queue):
        done = queue.counts()[ItemStatus.DONE]
        if done - done_before >= next_kill:
            victim = chance.choice(pids)
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            pids.remove(victim)
            kills, done_before, next_kill = kills + 1, done, chance.randint(*KILL_EVERY)
            queue.close()  # before forking: its pool refills by itself
            pids.append(start(url))
        time.sleep(0.01)
    ends = [os.waitpid(pid, 0)[1] for pid in pids]
    queue.close()
    print(json.dumps({"kills": kills, "ends": ends}))


if __name__ == "__main__":
    main(*sys.argv[1:])
