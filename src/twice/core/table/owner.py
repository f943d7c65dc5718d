"""The owner of a table, by its tokens: each names the project and the task that published its slice. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from twice.core.task import Task

TOKENS = "twice/"
TAKEOVERS = "twice-takeover/"
CUTS = "twice-cut/"
LAST_TAKEOVER = "twice-takeover"
"""The token that every takeover moves, whoever took the table from whom: the number of the last one."""

OURS = "twice"
"""How all of them begin."""

_DIGITS = str.maketrans("123456789", "0" * 9)


@dataclass(frozen=True, order=True)
class Owner:
    """A task by the name its tokens carry (`Task.first_name`), and its project."""

    project: str
    task: str


@dataclass(frozen=True)
class Ownership:
    """`slices`: how many slices of a table each task has published. `takeovers`: who was given the table although it
    held another's slices, (new, old); of two that did so to each other, the higher number is the later. `labels`: of
    the slices of each task one label for each form that they have: a day's differs from a month's. `cuts`: how each
    task has cut its slices, by the numbers of these tokens: the cut with the highest is the newest (decision 0024)."""

    slices: Mapping[Owner, int] = field(default_factory=dict)
    takeovers: Mapping[tuple[Owner, Owner], int] = field(default_factory=dict)
    labels: Mapping[Owner, frozenset[str]] = field(default_factory=dict, compare=False)
    cuts: Mapping[Owner, Mapping[str, int]] = field(default_factory=dict)

    def other_owners(self, owner: Owner) -> dict[Owner, int]:
        """Everybody else that `owner` did not take the table over from, and how many slices of it each has published:
        those with slices in it, and those who took it over and have not published yet."""
        others = {new: 0 for new, _ in self.takeovers} | dict(self.slices)
        return {other: count for other, count in sorted(others.items()) if not self._yields(owner, other)}

    def taken_by(self, owner: Owner) -> Owner | None:
        """Who took the table over from `owner`, the last of them; None if there is none, or it took it back."""
        takers = {new: number for (new, old), number in self.takeovers.items() if old == owner}
        lost = {new: number for new, number in takers.items() if not self._yields(owner, new)}
        return max(lost, key=lambda new: lost[new], default=None)

    def _yields(self, owner: Owner, other: Owner) -> bool:
        taken, lost = self.takeovers.get((owner, other), 0), self.takeovers.get((other, owner), 0)
        return owner == other or taken > lost

    @property
    def next_takeover(self) -> int:
        return 1 + max(self.takeovers.values(), default=0)


def owner_of(project: str, task: Task) -> Owner:
    return Owner(project, task.first_name)


def ownership(tokens: Mapping[str, int]) -> Ownership:
    """Of all tokens of a table, with their generations. Those of other systems do not count."""
    forms: dict[tuple[str, str, str], str] = {}
    counted: Counter[tuple[str, str]] = Counter()
    # By plain words, which are made to owners at the end: an old table has a hundred thousand tokens.
    for token_name in tokens:
        parts = token_name.split("/", 3)
        if len(parts) == 4 and token_name.startswith(TOKENS):
            _, project, task, label = parts
            counted[project, task] += 1
            forms.setdefault((project, task, form_of(label)), label)
    slices = Counter({Owner(*words): count for words, count in counted.items()})
    labels = by_owner(((Owner(project, task), form), label) for (project, task, form), label in forms.items())
    return Ownership(slices, takeovers(tokens), labels, cuts(tokens))


def form_of(label: str) -> str:
    """How it is written, whichever day it names: scopes that cut differently write otherwise."""
    return label.translate(_DIGITS)


def by_owner(forms: Iterable[tuple[tuple[Owner, str], str]]) -> dict[Owner, frozenset[str]]:
    found: dict[Owner, frozenset[str]] = {}
    for (owner, _), label in forms:
        found[owner] = found.get(owner, frozenset()) | {label}
    return found


def takeovers(tokens: Mapping[str, int]) -> dict[tuple[Owner, Owner], int]:
    found = {}
    for token_name, number in tokens.items():
        parts = token_name.split("/") if token_name.startswith(TAKEOVERS) else ()
        if len(parts) == 5:
            found[Owner(*parts[1:3]), Owner(*parts[3:5])] = number
    return found


def takeover_token(new: Owner, old: Owner) -> str:
    return f"{TAKEOVERS}{new.project}/{new.task}/{old.project}/{old.task}"


def cuts(tokens: Mapping[str, int]) -> dict[Owner, dict[str, int]]:
    found: dict[Owner, dict[str, int]] = {}
    for token_name, number in tokens.items():
        parts = token_name.split("/", 3) if token_name.startswith(CUTS) else ()
        if len(parts) == 4:
            found.setdefault(Owner(parts[1], parts[2]), {})[parts[3]] = number
    return found


def cut_token(owner: Owner, cut: str) -> str:
    return f"{CUTS}{owner.project}/{owner.task}/{cut}"


def last_cut_token(owner: Owner) -> str:
    """The token that moves whenever the task's newest cut becomes another: its number is that of the newest."""
    return f"{CUTS}{owner.project}/{owner.task}"
