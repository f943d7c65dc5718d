"""Every mutant of the list, also those that need PostgreSQL or a JVM, with a result file.

    python -m tests.soak.mutants

First every named test runs on the source as it is: one that is red by itself would kill anything. The result goes to
docs/proof/mutants.json. `make soak` runs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from tests.mutants import mutants
from tests.soak.result_file import ROOT, keep, of_this_source


def soak() -> dict[str, Any]:
    started, listed = time.monotonic(), mutants.all_mutants()
    tests = list(dict.fromkeys(test for mutant in listed for test in mutant.tests))
    whole = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT)
    command = [*mutants.COMMAND, "--needs", "server", "--needs", "jvm"]
    results = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            results.append(json.loads(line))
            print(f"{len(results)} of {len(listed)}: {line.strip()}", flush=True)
    killed = {result["name"] for result in results if result["killed"]}
    return {
        "what": "one protection of twice taken away at a time; the named tests must go red",
        **of_this_source(),
        "mutants": len(listed),
        "needs": dict(sorted(Counter(mutant.needs or "nothing" for mutant in listed).items())),
        "tests": len(tests),
        "green_without_a_mutant": whole.returncode == 0,
        "killed": len(killed),
        "survivors": [mutant.name for mutant in listed if mutant.name not in killed],
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def main() -> int:
    result = soak()
    keep("mutants.json", result)
    return 1 if result["survivors"] or not result["green_without_a_mutant"] else 0


if __name__ == "__main__":
    sys.exit(main())
