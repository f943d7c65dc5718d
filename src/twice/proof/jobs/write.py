"""One write of a plain job, as it was seen, and which difference of its tables it explains. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from twice.core.ports import Suspicion
from twice.core.results.proof import Cause, Difference
from twice.proof.blame import blame


@dataclass(frozen=True)
class Write:
    """`verb`: append, overwrite, a word of SQL, `file` or `call`. `selective`: it names the part it overwrites."""

    verb: str
    target: str
    statement: str = ""
    partitions: tuple[str, ...] = ()
    selective: bool = False
    likely: tuple[Suspicion, ...] = ()

    def __str__(self) -> str:
        return f"{self.verb} {self.target}".strip()


_SLICE = "Replace what this run owns, in one commit: replace() of a day, or merge(key) by a key that is in the data."
_ADDS = re.compile(r"\bSET\s+(?:\w+\.)?(\w+)\s*=\s*(?:\w+\.)?\1\s*[-+*/|]", re.IGNORECASE)


def blame_writes(difference: Difference, table: str, writes: Sequence[Write]) -> tuple[Cause, ...]:
    """What the writes to that table show: a plan that differs, a counter, an append, a mark that came first."""
    own = [write for write in writes if _writes(write, table)]
    added = [write for write in own if _ADDS.search(write.statement)]
    if added and difference.columns:
        column = _ADDS.search(added[0].statement)
        assert column is not None
        why = f"{added[0]} sets {column[1]} from its own old value, so each run moves it further"
        return (Cause("counter", (column[1],), why, "Compute the level from its movements, and replace it."),)
    suspects = tuple(dict.fromkeys(suspect for write in own for suspect in write.likely))
    # A value that is new on each run is the cause even where rows are added: it is what they are matched by.
    deeper = [cause for cause in blame(difference, suspects) if cause.name != "code"] if suspects else []
    if difference.missing and not difference.added:
        early = [write for write in writes if not _writes(write, table)]
        if early:
            why = f"{early[0]} came before {table} was written: dying in between, the next run takes the work as done"
            return (Cause("mark before data", (), why, "Write the mark in the commit of the rows: Since(cursor)."),)
    appends = [write for write in own if write.verb in ("append", "INSERT")]
    if appends and difference.added and not deeper:
        why = f"{appends[0].verb} to {table} adds its rows again on each run: nothing checks that they are there"
        return (Cause("append", (), why, _SLICE),)
    return tuple(deeper) or blame(difference, ())


def vanished(table: str, writes: Sequence[Write]) -> Cause:
    """Rows of partitions that the run did not write are gone."""
    wide = [w for w in writes if _writes(w, table) and w.verb == "overwrite" and w.partitions and not w.selective]
    why = f"overwrite replaces all partitions of {table}, not those it writes"
    if not wide:
        return Cause(
            "lost partitions", (), f"after the run, partitions of {table} are gone that it did not write", _SLICE
        )
    return Cause("static overwrite", (), why, "Use replace() of a day, or option('replaceWhere', …) with the day.")


def overlooked() -> Cause:
    """Rows that came late are not there, although the job was run again when they had come."""
    why = (
        "it continues from the newest row it has: a row that comes later with an older or an equal stamp is never read"
    )
    return Cause("late rows", (), why, "Read on from the mark, its own stamp included, and wait: Since(cursor, lag=…).")


def _writes(write: Write, table: str) -> bool:
    return table.replace(".", "/") in write.target.replace(".", "/") or table in write.target
