"""The long proof of effects: senders killed at random moments, round after round, with a result file.

    python tests/proof/soak_effects.py --kills 500 --seed 1

A receiver that sometimes hangs up, fails or asks to be left alone; senders that are killed with SIGKILL at a random
step or a random instant; then everything that arrived is compared with everything the outbox says. The result goes to
docs/proof/effects.json. `make soak` runs it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.proof.effect_checks import crash_rounds

RESULT = ROOT / "docs" / "proof" / "effects.json"
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
        "commit": _git("rev-parse", "HEAD"),
        "clean": not _git("status", "--porcelain", "--untracked-files=no"),
        "seed": seed,
        "kills": done,
        "in_doubt": counts["plain in_doubt"],
        "counts": dict(sorted(counts.items())),
        "violations": violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.kills, options.seed)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 1 if result["violations"] or not result["in_doubt"] else 0


if __name__ == "__main__":
    sys.exit(main())
