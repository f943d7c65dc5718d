"""The long proof of effects: senders killed at random moments, round after round, with a result file.

    python -m tests.soak.effects --kills 500 --seed 1

A receiver that sometimes hangs up, fails or asks to be left alone; senders that are killed with SIGKILL at a random
step or a random instant; then everything that arrived is compared with everything the outbox says. The result goes to
docs/proof/effects.json. `make soak` runs it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from tests.proof.effect_checks import crash_rounds
from tests.soak.result_file import keep, of_this_source

EACH = 60
"""Kills in one ledger; then a fresh one."""


def soak(kills: int, seed: int) -> dict[str, Any]:
    started, done, counts, violations = time.monotonic(), 0, Counter[str](), list[str]()
    while done < kills:
        with tempfile.TemporaryDirectory(prefix="twice-soak-") as folder:
            url = f"sqlite:///{folder}/ledger.db"
            found = crash_rounds(url, EACH, seed + counts["ledgers"], timeout=1800)
        done += found.kills
        counts.update(found.counts)
        counts["ledgers"] += 1
        violations += found.violations
        print(f"{done} of {kills} kills, {len(violations)} violations", flush=True)
    return {
        "what": "senders killed with SIGKILL at random moments; receivers that hang up, fail and refuse",
        **of_this_source(),
        "seed": seed,
        "kills": done,
        "in_doubt": counts["plain in_doubt"],
        "counts": dict(sorted(counts.items())),
        "violations": violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.kills, options.seed)
    keep("effects.json", result)
    return 1 if result["violations"] or not result["in_doubt"] else 0


if __name__ == "__main__":
    sys.exit(main())
