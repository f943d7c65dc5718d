"""The same kills, of commands that are attached to one warm Spark: its JVM lives on, with whatever they had under way.

    python -m tests.soak.kills_warm --kills 100 --seed 1 [--minutes 30] [--resume]

Two of ten times it is the keeper that is killed, with its JVM, under both writers. The result goes to
docs/proof/kills-warm.json.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time

from tests.processes.command import ROOT
from tests.soak.kills import BUSY_SECONDS, Soak, Writer
from tests.soak.long_run import LongRun

from twice.project import warm

KEEPER_KILLS = 0.2
HOUR_S = 3600.0


class WarmSoak(Soak):
    def _writer(self) -> Writer:
        warm.start(self.opened.settings, HOUR_S)
        return super()._writer()

    def _strike(self, writers: list[Writer]) -> None:
        choice = random.Random(f"keeper {self.run.seed} {self.counts['kills']}")
        (kept,) = warm.found(self.opened.settings)
        if kept.differs:
            self.violations.append(f"writers do not attach: it has {kept.differs}")
        self.counts["most commands attached at once"] = max(
            self.counts["most commands attached at once"], len(kept.attached)
        )
        if choice.random() >= KEEPER_KILLS:
            super()._strike(writers)
            return
        for writer in writers:
            writer.wait_until_ready()
        time.sleep(choice.random() * BUSY_SECONDS)
        os.kill(kept.pid, signal.SIGKILL)
        for writer in writers:
            writer.kill(with_jvm=True)
        self.counts["kills"] += 1
        self.counts["keeper and its JVM"] += 1
        writers[:] = [self._writer() for _ in writers]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    os.chdir(ROOT)  # commands attach in the folder that the keeper was started in
    run, options = LongRun.from_arguments(parser, "kills-warm")
    soak = WarmSoak(run)
    try:
        soak.carry_out(options.kills)
    finally:
        warm.stop(soak.opened.settings, by_force=True)
    return run.end("the same, attached to one warm Spark; now and then its keeper is killed")


if __name__ == "__main__":
    sys.exit(main())
