"""What a task's code is made of, by name, and which of it is other by now: for people. Whether code is the same is
decided by its hash alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from twice.core.names.first_few import first_few

CodeParts = Mapping[str, str]
"""A digest of each part, by its name, in their order: `write=`, `RATE in pipelines/rates.py`."""

CODE_CHANGED = "the code or its options changed"
"""Where it is not known which part did."""

_IN = " in "
_IMPORT = "import "
_NAMED = 2
"""So many parts are named: what a person looks at first, on one line."""


def no_parts() -> CodeParts:
    """Of code whose parts nobody knows."""
    return {}


@dataclass(frozen=True)
class TaskCode:
    """A task's code as it is now: its hash, and its parts for whoever asks, which takes as long as the hash."""

    hash: str
    parts: Callable[[], CodeParts] = no_parts


def part_name(what: str, file: str | None) -> str:
    return what if file is None else f"{what}{_IN}{file}"


def describe_change(before: CodeParts, now: CodeParts) -> str:
    """Why code whose hash is another is: which of its parts changed, moved to another file, are new or are gone."""
    found = tuple(_differences(before, now)) if before and now else ()
    if not found:
        return CODE_CHANGED
    return f"the code changed: {first_few(found, _NAMED)}"


def _differences(before: CodeParts, now: CodeParts) -> Iterator[str]:
    """What a person changed comes first. An import is named where nothing else is: it comes with what needs it."""
    kept = {name for name in now if before.get(name) == now[name]}
    there = {name: before[name] for name in before if name not in kept}
    here = {name: now[name] for name in now if name not in kept}
    pairs = _pairs(there, here)
    new, gone = here.keys() - pairs.keys(), there.keys() - set(pairs.values())
    changed = [name for name in here if name in pairs and here[name] != there[pairs[name]]]
    found = [
        *changed,
        *_moved({name: old for name, old in pairs.items() if here[name] == there[old]}),
        *(f"{name} is new" for name in here if name in new),
        *(f"{name} is gone" for name in there if name in gone),
    ]
    yield from [each for each in found if not each.startswith(_IMPORT)] or found or _reordered(before, now)


def _pairs(there: CodeParts, here: CodeParts) -> dict[str, str]:
    """Which part of before each of now is: the one of its name; else one that is the same word for word, in another
    file or of a function that was renamed with its task; else the only one that was called so."""
    found = {name: name for name in here if name in there}
    ways: tuple[Callable[[str, str], bool], ...] = (
        lambda old, new: there[old] == here[new],
        lambda old, new: _what(old) == _what(new),
    )
    for alike in ways:
        left = [old for old in there if old not in found.values()]
        for name in here:
            matching = [old for old in left if alike(old, name)] if name not in found else []
            if len(matching) == 1:
                found[name] = matching[0]
                left.remove(matching[0])
    return found


def _moved(same: Mapping[str, str]) -> Iterator[str]:
    """What is in another file, word for word. What was renamed in its own, with its task, is no change."""
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, old in same.items():
        if _file(name) and _file(old) and _file(name) != _file(old):
            together[_file(old), _file(name)].append(_what(name))
    for (source, to), moved in together.items():
        named = [each for each in moved if not each.startswith(_IMPORT)] or moved
        what = named[0] if len(named) == 1 else f"{len(named)} parts"
        yield f"{what} moved from {source} to {to}"


def _reordered(before: CodeParts, now: CodeParts) -> Iterator[str]:
    """The files in which the same statements stand in another order: the last one of a name counts."""
    for file in dict.fromkeys(_file(name) for name in now):
        there, here = ([name for name in each if _file(name) == file] for each in (before, now))
        if file and there != here:
            yield f"the order of the statements in {file}"


def _what(name: str) -> str:
    return name.partition(_IN)[0]


def _file(name: str) -> str:
    return name.partition(_IN)[2]
