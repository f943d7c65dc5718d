"""Findings a team has accepted for now: only new ones are reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from twice.errors import UsageError
from twice.lint.finding import Finding

_VERSION = 1


def write(path: Path, findings: Iterable[Finding]) -> int:
    """Stores the findings; returns how many. The file is stable: the same findings give the same bytes."""
    entries = sorted(
        ({"code": f.code, "path": f.path, "fingerprint": f.fingerprint} for f in findings),
        key=lambda entry: (entry["path"], entry["code"], entry["fingerprint"]),
    )
    path.write_text(json.dumps({"version": _VERSION, "findings": entries}, indent=1) + "\n", encoding="utf-8")
    return len(entries)


def read(path: Path) -> Counter[str]:
    """How often each accepted finding occurs."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Counter(entry["fingerprint"] for entry in data["findings"])
    except OSError as error:
        raise UsageError(
            f"the baseline {path} cannot be read: {error.strerror}",
            fix="Make it with: twice lint --write-baseline --baseline FILE.",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is not a baseline of twice lint", fix="Write it again with --write-baseline."
        ) from error


def without(findings: Iterable[Finding], accepted: Counter[str]) -> tuple[list[Finding], int]:
    """The findings that are new, and how many were accepted. Each entry accepts one finding."""
    left = Counter(accepted)
    new = []
    count = 0
    for finding in findings:
        if left[finding.fingerprint] > 0:
            left[finding.fingerprint] -= 1
            count += 1
        else:
            new.append(finding)
    return new, count
