"""All twenty-four pipelines, twelve of them broken in one known way each, with a result file.

    python -m tests.soak.prove [--quick]

The broken ones are played in the scenario that shows it, the sound ones in all that are played by default; with
--quick in that one alone. The result goes to docs/proof/prove.json. `make soak` runs it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.proof.known_ways import WAYS, Ground, Way, ground, wrong
from tests.soak.result_file import keep, of_this_source

from twice.engine.session.session import close, embedded
from twice.engine.session.spark_conf import SessionSettings


def soak(quick: bool) -> dict[str, Any]:
    started, proofs, violations = time.monotonic(), list[dict[str, Any]](), list[str]()
    with tempfile.TemporaryDirectory(prefix="twice-soak-") as folder:
        place = Path(folder)
        spark = embedded(SessionSettings(place / "spark", place / "warehouse", short_jobs=True, archive="use"))
        with ground(spark, place / "ways") as made:
            for way in WAYS:
                for sound in (False, True):
                    played, problem = _play(made, way, sound, [] if sound and not quick else [way.scenario])
                    proofs.append(played)
                    violations += [problem] if problem else []
                    print(json.dumps(played), problem or "", flush=True)
        close(spark)
    return {
        "what": "small pipelines broken in one known way each, and their sound twins",
        **of_this_source(),
        "pipelines": len(proofs),
        "caught": sum(not one["sound"] and one["right"] for one in proofs),
        "accused": sum(one["sound"] and not one["right"] for one in proofs),
        "proofs": proofs,
        "violations": violations,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def _play(made: Ground, way: Way, sound: bool, scenarios: Sequence[str]) -> tuple[dict[str, Any], str | None]:
    result: dict[str, Any] = {"pipeline": way.name, "sound": sound, "right": False}
    try:
        proof = made.prove(way, sound, *scenarios)
    except Exception as error:  # noqa: BLE001 - a violation never stops the soak
        return result, f"{way.name}: the proof ended with {type(error).__name__}: {error}"
    problem = wrong(way, proof, sound)
    result |= {
        "right": problem is None,
        "verdicts": {trial.scenario: trial.result.value for trial in proof.trials},
        "blamed": [cause.name for trial in proof.changed if trial.difference for cause in trial.difference.causes],
        "seconds": round(proof.seconds, 1),
    }
    return result, problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    result = soak(parser.parse_args().quick)
    keep("prove.json", result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
