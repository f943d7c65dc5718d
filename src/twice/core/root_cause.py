"""What stands behind an error that came out of a JVM. Pure: no driver is imported, errors are asked."""

from __future__ import annotations

from typing import Any

_DEPTH = 20


def root_cause(error: BaseException) -> str:
    """One line: the message of the innermost Java error that has one, since those around it tell the way only ("An
    error occurred while calling o31.merge", "Job aborted"). Of an error without Java, its own first line."""
    found = str(error)
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        for _ in range(_DEPTH):
            if thrown is None:
                break
            found = str(thrown.getMessage() or "") or found
            thrown = thrown.getCause()
    except Exception:  # noqa: BLE001 - py4j raises what it likes when its JVM dies: what was heard until then must do
        pass
    return (found.strip().splitlines() or ["(no message)"])[0]
