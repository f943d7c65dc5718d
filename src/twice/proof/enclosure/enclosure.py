"""The process a proof runs in: how it is started, what it is kept from, and what it tried all the same."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twice.core.results.proof import Cause, Difference, SideEffect, Trial, TrialResult
from twice.proof.enclosure import hook

_HERE = Path(__file__).resolve().parent
_UNNAMED = (
    ("file", re.compile(r"[^\n]*(?:Read-only file system|Mkdirs failed to create)[^\n]*")),
    ("call", re.compile(r"[^\n]*(?:Network is unreachable|UnknownHostException|Connection refused)[^\n]*")),
)
"""What the system's own refusals look like where they stopped the JVM or a library in C."""
_LONGEST = 400


@dataclass(frozen=True)
class Enclosure:
    """`guard` is what this process was started with; without one nothing is kept in, and nothing is found: a scenario
    that is played in a process that may do anything (a test of the scenarios themselves)."""

    guard: hook.Guard | None = None
    _read: list[int] = field(default_factory=lambda: [0])

    @property
    def not_blocked(self) -> tuple[str, ...]:
        """What this system could not keep in, each in one line. Empty: nothing gets out."""
        return () if self.guard is None else unblocked(self.guard)

    @property
    def only_writable(self) -> Path | None:
        """The one folder that can be written, if the system sees to that."""
        return None if self.guard is None or not self.guard.files else Path(self.guard.scratch)

    @property
    def scratch(self) -> Path:
        """Where all that the process writes goes."""
        assert self.guard is not None, "only a process that a proof started is enclosed"
        return Path(self.guard.scratch)

    def found(self) -> tuple[SideEffect, ...]:
        """What was refused since the last call, in any process of the proof, each thing once."""
        if self.guard is None:
            return ()
        journal = Path(self.guard.scratch, hook.JOURNAL)
        if not journal.exists():
            return ()
        with journal.open("rb") as file:
            file.seek(self._read[0])
            lines = file.readlines()
        self._read[0] += sum(map(len, lines))
        return tuple(dict.fromkeys(SideEffect(**json.loads(line)) for line in lines))

    def behind(self, error: BaseException) -> tuple[SideEffect, ...]:
        """What was refused; or, if nothing was recorded, what the error itself names as refused by the system."""
        found = self.found()
        if found or self.guard is None or not (self.guard.network or self.guard.files):
            return found
        text = "\n".join(_messages_of(error))
        matches = ((kind, pattern.search(text)) for kind, pattern in _UNNAMED)
        return tuple(SideEffect(kind, each[0].strip()[:_LONGEST], "") for kind, each in matches if each is not None)[:1]


def unblocked(guard: hook.Guard) -> tuple[str, ...]:
    lines = []
    if not guard.network:
        lines.append(
            "connections of the JVM (spark.read.jdbc, spark._jvm) and of libraries in C (libpq): this system gives no "
            "network namespace; connections of Python code were refused"
        )
    if not guard.files:
        lines.append(
            "files written by libraries in C (pyarrow, SQLite) and by calls into the JVM (spark._jvm, DeltaTable): "
            "this system gives no mount namespace; Python's own writes and Spark's writers were refused"
        )
    if not guard.sockets:
        lines.append("unix-domain sockets of the JVM and of libraries in C: those of Python code were refused")
    if not guard.processes:
        lines.append(
            "signals to your processes from the JVM, from libraries in C and from programs that the code starts: this "
            "system gives no process namespace; those of Python code (os.kill) were refused"
        )
    return tuple(lines)


def untouched(scratch: Path) -> str:
    """What an error of the process in this scratch folder can state about the user's tables, files and services."""
    try:
        guard = hook.Guard(**json.loads((scratch / hook.ENCLOSURE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return "Nothing was run."  # it is written before the first line of anybody's code
    left = [line.partition(":")[0] for line in unblocked(guard)]
    if not left:
        return "Nothing of yours was written."
    return f"What this system could not block may have been done: {'; '.join(left)}."


def here() -> Enclosure:
    """The enclosure that this process was started in."""
    return Enclosure(hook.from_environment())


def command(scratch: Path, root: Path, words: Sequence[str]) -> list[str]:
    """The command line that closes itself in and then becomes `words`. It ends with the process that calls this."""
    places = [str(scratch), str(root.resolve()), str(os.getpid())]
    return [sys.executable, "-S", str(_HERE / "enclose.py"), *places, "--", *words]


def environment(scratch: Path, outer: Mapping[str, str]) -> dict[str, str]:
    """The variables of an enclosed process. What it would keep for later goes into `scratch`."""
    temporary, cache = scratch / "tmp", scratch / "cache"
    for folder in (temporary, cache):
        folder.mkdir(parents=True, exist_ok=True)
    paths = [str(_HERE / "startup"), *filter(None, [outer.get("PYTHONPATH")])]
    return {
        **outer,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temporary),
        "MPLCONFIGDIR": str(cache),
        "NUMBA_CACHE_DIR": str(cache),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "_JAVA_OPTIONS": " ".join(filter(None, [outer.get("_JAVA_OPTIONS"), f"-Djava.io.tmpdir={temporary}"])),
    }


def with_findings(trials: Sequence[Trial], found: Sequence[SideEffect]) -> tuple[Trial, ...]:
    """A task that acts beside its result does so on each run: its first scenario has changed, whatever its rows are."""
    if not found or not trials:
        return tuple(trials)
    first = trials[0]
    before = first.difference or Difference((), 0, 0)
    changed = Difference(**{**vars(before), "causes": (*(_cause(each) for each in found), *before.causes)})
    note = "the code has side effects"
    reason = note if first.result is TrialResult.NOT_APPLICABLE else f"{first.reason}; {note}"
    return (Trial(first.scenario, TrialResult.CHANGED, reason, changed, first.seconds), *trials[1:])


def only_findings(scenarios: Sequence[str], found: Sequence[SideEffect]) -> tuple[Trial, ...]:
    """The code cannot end without what was refused: nothing more is known about its rows."""
    tried = ", ".join(dict.fromkeys(_describe(each) for each in found))
    return with_findings([Trial(name, TrialResult.NOT_APPLICABLE, f"the code {tried}") for name in scenarios], found)


def _cause(one: SideEffect) -> Cause:
    at = f" at {one.where}" if one.where else ""
    if one.kind == "call":
        return Cause(
            "effect in the code",
            (),
            f"the code itself calls {one.what}{at} each time it runs, so a rerun calls again",
            "Declare it: effects=[webhook(…)], slack(…), email(…) or call(…). It is then sent once, after the publish.",
        )
    if one.kind == "process":
        why = f"the code itself starts a program{at}: {one.what}; here it could not be kept in, so it was refused"
        return Cause("program in the code", (), why, "Do it after the publish: effects=[call(…)].")
    if one.kind == "signal":
        why = f"the code itself sends {one.what}{at} each time it runs, so a rerun sends it again"
        return Cause("signal in the code", (), why, "Do it after the publish: effects=[call(…)].")
    return Cause(
        "write in the code",
        (),
        f"the code itself writes{at}: {one.what}; each run does it again, published or not",
        "Return the rows: the task writes its own table, once. Another table is another task, a note is an effect.",
    )


def _describe(one: SideEffect) -> str:
    return {"call": "calls", "process": "starts", "signal": "sends"}.get(one.kind, "writes") + f" {one.what}"


def _messages_of(error: BaseException) -> Iterator[str]:
    """The messages of an error and of all its causes. PySpark keeps the JVM's own causes beside Python's."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield str(one)
        yield str(getattr(one, "_stackTrace", ""))
        behind = (one.__cause__, getattr(one, "_cause", None), one.__context__)
        waiting += [each for each in behind if isinstance(each, BaseException)]
