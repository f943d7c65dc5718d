"""Write verbs: what a strategy compiles to and a target carries out. Strategies and targets meet only here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal

from twice.core.closed import assert_never
from twice.core.slice import Slice
from twice.core.time_scope import SliceColumn

NullKeys = Literal["refuse", "match"]
"""Rows without a key are refused, or match each other like any other value."""


@dataclass(frozen=True)
class ReplaceRows:
    """Exactly the rows of these slices are exchanged for the staged ones; no other row is touched."""

    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class UpsertRows:
    """Staged rows whose key is new are inserted; the others update the row they match, unless it is newer
    (`newest_by`), unchanged, or only inserting is wanted (`insert_only`).

    Of several staged rows with one key one survives: the newest, then the one whose content is the greatest, in an
    order of the target's own. The same order holds between a staged row and the table's, so that batches give one table
    whatever order they come in; unless `wins_ties`: a correction lands also where it is only equally new.
    `delete_missing`: rows inside the slices (all rows, where a slice has no bounds) whose key is not staged go; and a
    staged row wins its tie with a row outside them, which its own slice may be about to delete. If it is older than
    such a row it is displaced, and is counted (`Changes.elsewhere`).
    """

    slices: tuple[Slice, ...]
    key: tuple[str, ...]
    newest_by: str | None = None
    insert_only: bool = False
    delete_missing: bool = False
    null_keys: NullKeys = "refuse"
    wins_ties: bool = False

    @property
    def may_be_displaced(self) -> bool:
        """Whether a staged row may be older than one that another slice is about to delete."""
        return self.delete_missing and self.newest_by is not None and self.slices[0].bounds is not None


@dataclass(frozen=True)
class AppendRows:
    """The staged rows are added. Only the token shows whether they are there already. `gathered`: they are of many
    partitions, and are brought together by partition first."""

    slices: tuple[Slice, ...]
    gathered: bool = False


@dataclass(frozen=True)
class Kept:
    """The rows of a table that an exchange must not take away: those outside the slices that are `owned`; with a `key`,
    those whose key the side table does not have; with neither, every row. Of them `lost` may go, as a person said."""

    owned: tuple[Slice, ...] = ()
    key: tuple[str, ...] = ()
    lost: int = 0


@dataclass(frozen=True)
class ReplaceTable:
    """All rows of the table, its columns and how it is laid out are exchanged for those of the table `side` at its
    version `at`. `prefix`: how the names of the task's tokens begin; if the table has one that the plan does not
    compare, a slice was published since, and the write loses. `side_id`: the id that the side table must have, where it
    is known: one that was dropped and made again may have come to the same version with other rows. `rows`: how many
    the table must have, where the side table is a copy of it: a system that does not see what others write counts them.
    `kept` was seen to hold at the version that the plan has read: such a system looks again, at the last moment."""

    slices: tuple[Slice, ...]
    side: str
    at: int
    prefix: str
    side_id: str | None = None
    rows: int | None = None
    kept: Kept | None = None


WriteVerb = ReplaceRows | UpsertRows | AppendRows | ReplaceTable
WriteKind = Literal["replace", "upsert", "append"]
"""Which of the verbs a strategy compiles to, known before there are slices."""


def may_delete(verb: WriteVerb) -> bool:
    """Whether it takes rows away that are not staged: then a result without rows is no write without rows."""
    match verb:
        case ReplaceRows() | ReplaceTable():
            return True
        case UpsertRows():
            return verb.delete_missing
        case AppendRows():
            return False
        case _:
            assert_never(verb)


@dataclass(frozen=True)
class Cut:
    """How a task cuts its slices (`day`, `day@Europe/Berlin`, `window/15`), and whose slices they are."""

    owner: str
    how: str

    def __str__(self) -> str:
        return f"{self.owner} {self.how}"


def cut_text(how: str) -> str:
    """A cut, or a grain, for people: `window of 15 minutes`, `day in Europe/Berlin`."""
    grain, _, zone = how.partition("@")
    text = f"window of {grain.removeprefix('window/')} minutes" if grain.startswith("window/") else grain
    return f"{text} in {zone}" if zone else text


def appended_again(table: str, held: str, wanted: str) -> str:
    """Why slices are not appended that are cut differently than those of the same task that the table holds."""
    return (
        f"{table} has one slice per {cut_text(held)}, and this scope one per {cut_text(wanted)}: rows would be "
        "appended a second time"
    )


@dataclass(frozen=True)
class Layout:
    """What a write needs of its table. `slice_column` holds the slice's value; a new table is partitioned by it.
    `key` names a row; with `null_keys`, NULL may stand in it. `any_partitions`: an existing table may be partitioned
    otherwise. `cut`: how slices are cut that no column of the table tells apart; a new table remembers it."""

    slice_column: SliceColumn | None = None
    key: tuple[str, ...] = ()
    any_partitions: bool = False
    null_keys: bool = False
    cut: Cut | None = None


@dataclass(frozen=True)
class WritePlan:
    """One atomic publish: what is written, and the token of each slice that lands in the same commit. `read_at`: the
    version of this very table that the rows were computed from, if they were: the commit then refuses rows that are out
    of date. `watched`: the names of tokens that the commit compares as well and does not move: those of the last
    takeover and of the task's cut."""

    write: WriteVerb
    slices: tuple[Slice, ...]
    token_names: tuple[str, ...]
    read_at: int | None = None
    watched: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[str, ...]:
        """The names of all tokens that must be where the look found them."""
        return (*self.token_names, *self.watched)

    def token_name(self, slice_: Slice) -> str:
        return self.token_names[self.slices.index(slice_)]

    @property
    def file_slices(self) -> tuple[Slice, ...]:
        """The slices that may hold files of this write. A row found by its key, and a row without a slice, may be
        anywhere in the table."""
        match self.write:
            case ReplaceRows():
                return self.slices
            case UpsertRows() | AppendRows() | ReplaceTable():
                return tuple(replace(slice_, bounds=None) for slice_ in self.slices)
            case _:
                assert_never(self.write)


@dataclass(frozen=True)
class Changes:
    """What a write did, in rows. `older`: ignored, since the table holds a newer row of their key, or one that is
    equally new and wins by its content. `differing`: left alone by an insert-only write although the table's row of
    their key differs. `ties`: how often two rows of a key were equally new and differed, in the batch or between it and
    the table; these rows are counted by what became of them, too. `elsewhere`: of the older ones, where missing rows
    are deleted, those whose newer row is of another slice. `oldest_update` is no count: the least `newest_by` of the
    updated rows, as the version that a mark of it has; None where that is not known. A commit's note leaves it out."""

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deduplicated: int = 0
    deleted: int = 0
    older: int = 0
    differing: int = 0
    ties: int = 0
    elsewhere: int = 0
    oldest_update: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        words = {
            "older": "older ignored",
            "differing": "left alone though they differ",
            "ties": "equally new though they differ",
            "elsewhere": "of the older ones newer in another slice",
        }
        names = [each.name for each in fields(self) if each.name != "oldest_update"]
        counts = [(getattr(self, name), words.get(name, name)) for name in names]
        return ", ".join(f"{count:,} {word}" for count, word in counts if count) or "none changed"
