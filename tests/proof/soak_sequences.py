"""Random histories on real Delta tables against the model, with a result file: part of `make soak`.

python tests/proof/soak_sequences.py --rounds 25 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.proof.delta_world import delta_world
from tests.proof.result_file import keep, of_this_source
from tests.proof.sequences import Run, Step, play, steps

from twice.engine.session import SessionSettings, close, embedded


def soak(rounds: int, seeded: int) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    violations: list[str] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twice-sequences-") as folder:
        spark = embedded(SessionSettings(Path(folder) / "spark", Path(folder) / "warehouse"))

        @seed(seeded)
        @settings(
            max_examples=rounds,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(history=steps())
        def one(history: list[Step]) -> None:
            counts["histories"] += 1
            counts["steps"] += len(history)
            counts["crashes"] += sum(isinstance(step, Run) and step.crash is not None for step in history)
            try:
                with delta_world(spark) as world:
                    play(world, history)
            except AssertionError as error:  # a violation never stops the soak
                violations.append(f"{error}: {history}")

        one()
        close(spark)
    return {
        "what": "random histories (runs, crashes, late rows, restatements, foreign deletes) on Delta against a model",
        **of_this_source(),
        "seed": seeded,
        "counts": dict(counts),
        "violations": violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.rounds, options.seed)
    keep("sequences.json", result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
