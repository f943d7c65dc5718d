"""Tokens: who published a slice, and how many times, written in the same atomic commit as the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from twice.core.write import Changes

Kind = Literal["run", "restate", "reset", "takeover", "accept", "rebuild", "adopt"]
"""What an attempt was: a run, a restatement, the reset of a mark, a takeover of a table, the exchange that ends a
rebuild, slices that were there before twice declared published; or a person's decision that what is there is right as
it is, which moves no token."""


ADOPTED = "adopted"
"""In the place of the code's hash, and of the inputs': the slice was there before twice, and a person declared it
published as it is. No run computes it again by itself."""


def token_name(project: str, task: str, label: str) -> str:
    """One per (task, slice): with one for all dates a target would drop a backfill of an older day."""
    return f"twice/{project}/{task}/{label}"


@dataclass(frozen=True)
class SliceToken:
    """One slice's token as the target holds it. Generation 0: nothing of the slice is published."""

    name: str
    label: str
    generation: int


@dataclass(frozen=True)
class Intention:
    """What a run means to publish for one slice: the hash of its code (with options) and of its inputs.

    `inputs` is None where the inputs cannot be versioned, and where rows were displaced by those of another slice: such
    a run is never shown to be the same as another.
    """

    code: str
    inputs: str | None

    @property
    def hash(self) -> str:
        return hashlib.sha256(f"{self.code}\n{self.inputs}".encode()).hexdigest()[:32]

    def same_as(self, other: Intention) -> bool:
        return self.inputs is not None and self == other

    @property
    def adopted(self) -> bool:
        return self.code == ADOPTED


@dataclass(frozen=True)
class Cursor:
    """What a mark counts: a column of a table. `table` is None in a commit of a twice that did not write it."""

    column: str
    table: str | None

    def __str__(self) -> str:
        return self.column if self.table is None else f"{self.column} of {self.table}"

    def same_as(self, other: Cursor) -> bool:
        """What was not recorded counts as the same."""
        if self.column.lower() != other.column.lower():
            return False
        return self.table is None or other.table is None or self.table.lower() == other.table.lower()


@dataclass(frozen=True)
class CommitNote:
    """Written into the commit beside the tokens, for people and for settling: it dies with the log.
    `changes` is what a keyed write did, `changed` which slices a restatement replaced with other rows, where that was
    compared; the target that carries it out fills them in. `why`: a person's reason. `cursor`: what a mark counts.
    `version` is the table's that the commit made: it is not written, the target that reads the note fills it in.
    `side`: the id of the side table that a rebuild has exchanged for the table; `copied`: the labels of the slices
    whose rows it took from the table as they were.
    `beside`: tokens that the commit moves with those of its slices, such as that of the task's cut; the note's text
    does not repeat them."""

    attempt: str
    kind: Kind
    generations: Mapping[str, int]
    intentions: Mapping[str, Intention] = field(default_factory=dict)
    changes: Changes | None = None
    why: str | None = None
    version: int | None = field(default=None, compare=False)
    changed: frozenset[str] | None = None
    cursor: Cursor | None = None
    beside: Mapping[str, int] = field(default_factory=dict, compare=False)
    side: str | None = None
    copied: frozenset[str] = frozenset()

    @property
    def tokens(self) -> dict[str, int]:
        """Every token that the commit moves."""
        return {**self.generations, **self.beside}

    def counted(self, changes: Changes | None) -> CommitNote:
        """With what its write did. Rows that were displaced by those of other slices may be due once these are run:
        what was published is then not all there is of its inputs, and does not name them."""
        note = replace(self, changes=changes)
        return note.without_inputs() if changes is not None and changes.elsewhere else note

    def without_inputs(self) -> CommitNote:
        """Whose next run computes again, whatever it reads."""
        return replace(self, intentions={name: replace(each, inputs=None) for name, each in self.intentions.items()})

    def to_json(self) -> str:
        slices = {
            name: [generation, self.intentions[name].code, self.intentions[name].inputs]
            if name in self.intentions
            else [generation]
            for name, generation in self.generations.items()
        }
        body: dict[str, Any] = {"attempt": self.attempt, "kind": self.kind, "slices": slices}
        if self.changes is not None:
            body["changes"] = {
                name: rows for name, rows in asdict(self.changes).items() if rows and name != "oldest_update"
            }
        if self.changed is not None:
            body["changed"] = sorted(self.changed)
        if self.why is not None:
            body["why"] = self.why
        if self.cursor is not None:
            body["cursor"] = self.cursor.column
            body["source"] = self.cursor.table
        if self.side is not None:
            body["side"] = self.side
        if self.copied:
            body["copied"] = sorted(self.copied)
        return json.dumps({"twice": body}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> CommitNote | None:
        """None for commits that are not ours: any string may stand there."""
        try:
            body = json.loads(text or "")["twice"]
            slices: dict[str, list[str | int | None]] = body["slices"]
            intentions = {
                name: Intention(str(row[1]), None if row[2] is None else str(row[2]))
                for name, row in slices.items()
                if len(row) == 3
            }
            generations = {name: int(row[0] or 0) for name, row in slices.items()}
            changes = Changes(**body["changes"]) if "changes" in body else None
            changed = frozenset(map(str, body["changed"])) if "changed" in body else None
            note = cls(str(body["attempt"]), body["kind"], generations, intentions, changes, body.get("why"))
            cursor = Cursor(str(body["cursor"]), body.get("source")) if "cursor" in body else None
            copied = frozenset(map(str, body.get("copied", ())))
            return replace(note, changed=changed, cursor=cursor, side=body.get("side"), copied=copied)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None
