"""Kills in earnest: real Spark runs on Delta, all strategies, several writers, killed at random moments.

    python -m tests.soak.kills --kills 400 --seed 1 [--minutes 30] [--resume]

Two processes with their own JVMs publish slices of the same tables (busy_writer.py). At a random moment one of them
gets SIGKILL: half of the time with its JVM, half of the time alone, so that an orphaned JVM may still commit. Now and
then all is quiet: everything is run once more, and every table must hold exactly the source's rows, every token must
have moved one step at a time, and no file may be left that no commit refers to.

It can be stopped and started again: its state lies in `.soak/kills`. The result, with the commits it was made of,
goes to docs/proof/kills.json.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO

from tests.processes.command import ROOT, command
from tests.proof.tables import loose_files, tokens
from tests.soak import kill_project
from tests.soak.kill_project import BY_DAY, INCREMENTAL, RESTATED, WHOLE
from tests.soak.long_run import LongRun

from twice.config import load
from twice.core.results.run import RunRequest
from twice.errors import TwiceError
from twice.project import run as runs
from twice.project import upkeep
from twice.wiring.open_project import OpenProject

WRITERS = 2
KILLS_BETWEEN_CHECKS = 25
DAYS_BETWEEN_CHECKS = 4
STARTUP_KILLS = 0.1
"""How many die before their session is up."""
READY_SECONDS = 180.0
BUSY_SECONDS = 6.0
"""How long after it is ready a writer lives at most: some runs."""


class Writer:
    """One busy_writer.py with its JVM, in a process group of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.log = folder / f"writer-{seed}.log"
        with self.log.open("w") as log:
            self.process = _start(folder, seed, log)

    def ready(self) -> bool:
        return self.log.read_text().startswith("ready")

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self.ready() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)

    def kill(self, with_jvm: bool) -> bool:
        """Whether it was alive until now."""
        alive = self.process.poll() is None
        with suppress(ProcessLookupError):
            (os.killpg if with_jvm else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        return alive

    def end_orphan(self, seconds: float) -> bool:
        """Wait for what is left of its group to end by itself; True if it had to be ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return False
            time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return True


class Soak:
    """A violation never stops the soak."""

    def __init__(self, run: LongRun) -> None:
        self.run, self.folder, self.root = run, run.folder, run.folder / "shop"
        self.counts, self.violations, self.state = run.counts, run.violations, run.state
        self.state.setdefault("days", 0)
        self.state.setdefault("writers", 0)
        self.state.setdefault("checked", True)
        if not self.root.exists():
            kill_project.write_project(self.root)
        self.opened = OpenProject(load(self.root))
        self.orphans: list[Writer] = []

    def carry_out(self, kills: int) -> None:
        if not self.state["checked"]:  # stopped between two checks: the days that were open then are made right first
            self._check()
        while self.counts["kills"] < kills and self.run.goes_on:
            self._more_days()
            writers = [self._writer() for _ in range(WRITERS)]
            try:
                wanted = min(kills, self.counts["kills"] + KILLS_BETWEEN_CHECKS)
                while self.counts["kills"] < wanted:
                    self._strike(writers)
            finally:
                for writer in writers:
                    writer.kill(with_jvm=True)
                for orphan in self.orphans:
                    self.counts["orphaned JVMs that had to be ended"] += orphan.end_orphan(20.0)
                self.orphans.clear()
            self._check()
            self.run.save()

    def _more_days(self) -> None:
        days = range(self.state["days"], self.state["days"] + DAYS_BETWEEN_CHECKS)
        kill_project.arrive(self.opened.spark, self.root, days)
        self.state |= {"days": days.stop, "checked": False}
        self.run.save()

    def _writer(self) -> Writer:
        self.state["writers"] += 1
        return Writer(self.folder, 1000 * self.run.seed + self.state["writers"])

    def _strike(self, writers: list[Writer]) -> None:
        """At a moment of the seed's choice, in the middle of whatever it does."""
        choice = random.Random(f"{self.run.seed} {self.counts['kills']}")
        at = choice.randrange(len(writers))
        victim, early = writers[at], choice.random() < STARTUP_KILLS
        if early:
            time.sleep(choice.random() * 5)
        else:
            victim.wait_until_ready()
            time.sleep(choice.random() * BUSY_SECONDS)
        doing = self._doing(victim)
        with_jvm = choice.random() < 0.5
        if victim.kill(with_jvm):
            self.counts["kills"] += 1
            self.counts["Python and JVM" if with_jvm else "Python alone"] += 1
            self.counts[f"while {doing}"] += 1
        else:
            self.violations.append(f"a writer ended by itself: {victim.log.read_text()[-300:]}")
        if not with_jvm:
            self.orphans.append(victim)
        writers[at] = self._writer()

    def _doing(self, victim: Writer) -> str:
        """What the ledger knows of it a moment before it dies."""
        if not victim.ready():
            return "starting"
        mine = [a for a in self.opened.ledger.open_attempts() if f":{victim.process.pid}:" in a.holder]
        return mine[0].state.value if mine else "between two attempts"

    def _check(self) -> None:
        upkeep.recover(self.opened)
        for task in (*BY_DAY, *INCREMENTAL, *WHOLE):
            for day in kill_project.open_days(self.root) if task in BY_DAY else [None]:
                try:
                    runs.run(
                        self.opened, task, runs.slices(self.opened, task, day), RunRequest("run", timedelta(seconds=60))
                    )
                except TwiceError as error:
                    self.violations.append(f"{task} {day} does not converge: {error}")
        self._let_go_of_dead_restatements()
        when = f"after {self.counts['kills']} kills"
        wrong = kill_project.wrong_tables(self.opened.spark, self.root, self.state["days"])
        self.violations += [f"{when}: {one}" for one in wrong]
        self.violations += [f"{when}: {one}" for one in self._wrong_logs()]
        if self.opened.ledger.open_attempts():
            self.violations.append(f"{when}: attempts stay open")
        self.counts["checks of every table"] += 1
        self.state["checked"] = True

    def _let_go_of_dead_restatements(self) -> None:
        """What a killed restatement has staged is kept until its slice is published again: its process might live."""
        for kept in upkeep.gc(self.opened):
            for label in kept.slices if kept.task in RESTATED else ():
                runs.run(
                    self.opened,
                    kept.task,
                    runs.slices(self.opened, kept.task, label),
                    RunRequest("restate", timedelta(seconds=60)),
                )
                self.counts["slices restated for what a killed restatement had staged"] += 1
        upkeep.gc(self.opened)

    def _wrong_logs(self) -> list[str]:
        found = []
        for name in (*BY_DAY, *INCREMENTAL, *WHOLE):
            table, moves = kill_project.table(self.root, name), Counter[str]()
            for token, version in tokens(table):
                moves[token] += 1
                if name in (*BY_DAY, *WHOLE) and version != moves[token]:
                    found.append(f"{token} jumps to {version} at its move {moves[token]}")
            twice_moved = [token for token, count in moves.items() if count > 1]
            if name in BY_DAY and name not in RESTATED and twice_moved:
                found.append(f"{name} published {twice_moved[:3]} more than once")
            if loose := loose_files(table):
                found.append(f"{name}: files that no commit refers to: {loose[:3]}")
        return found


def _start(folder: Path, seed: int, log: IO[str]) -> subprocess.Popen[bytes]:
    writer = command("busy_writer", folder / "shop", str(seed))
    return subprocess.Popen(writer, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=400)
    run, options = LongRun.from_arguments(parser, "kills")
    Soak(run).carry_out(options.kills)
    return run.end("real Spark runs of every strategy on Delta, two writers, SIGKILL at random moments")


if __name__ == "__main__":
    sys.exit(main())
