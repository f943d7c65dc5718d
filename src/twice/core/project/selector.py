"""Selectors: which tasks a person means, in the words that dbt users know. Pure.

`revenue_daily` is that task, `revenue_daily+` also every task that reads from it, directly or through others,
`+revenue_daily` also every task that it reads from, `tag:finance` every task with that tag; a `+` on either side of a
tag means the same as with a name. Several selectors mean every task that any of them means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from twice.core.project.project import Project
from twice.core.task import NAME, TAG, Task
from twice.errors import UsageError

TAG_WORD = "tag:"


@dataclass(frozen=True)
class Selector:
    """One of them, taken apart. `above`: with what these tasks read from; `below`: with what reads from them."""

    name: str
    is_tag: bool = False
    above: bool = False
    below: bool = False


def parse(text: str) -> Selector:
    """Raises UsageError for what is no selector, whatever tasks there are."""
    above, below = text.startswith("+"), len(text) > 1 and text.endswith("+")
    middle = text[above : len(text) - below]
    is_tag = middle.startswith(TAG_WORD)
    name = middle.removeprefix(TAG_WORD) if is_tag else middle
    if not (TAG if is_tag else NAME).fullmatch(name):
        raise UsageError(
            f"{text!r} is not a selector",
            fix="Write revenue_daily, revenue_daily+ (with what reads from it), +revenue_daily (with what it reads "
            "from) or tag:finance; to choose by several, give several.",
        )
    return Selector(name, is_tag, above, below)


def choose(project: Project, texts: Sequence[str]) -> tuple[Task, ...]:
    """The tasks that are meant by any of the selectors, each once, in the order of the graph."""
    names: set[str] = set()
    for selector in map(parse, texts):
        named = _named(project, selector)
        names |= named
        names |= _reached(named, lambda name: _above(project, name)) if selector.above else set()
        names |= _reached(named, lambda name: _below(project, name)) if selector.below else set()
    return tuple(task for task in project.in_order() if task.name in names)


def only_name(texts: Sequence[str]) -> str | None:
    """The one name that was given, where nothing else was: a command then is about this task alone."""
    plain = len(texts) == 1 and "+" not in texts[0] and not texts[0].startswith(TAG_WORD)
    return texts[0] if plain else None


def _named(project: Project, selector: Selector) -> set[str]:
    tags = {tag for task in project.tasks.values() for tag in task.tags}
    if selector.is_tag:
        if selector.name not in tags:
            raise _no_such_tag(selector.name, tags)
        return {task.name for task in project.tasks.values() if selector.name in task.tags}
    if selector.name not in project.tasks and selector.name in tags:
        raise UsageError(
            f"there is no task {selector.name!r} in this project, but a tag", fix=f"Write {TAG_WORD}{selector.name}."
        )
    return {project.task(selector.name).name}


def _no_such_tag(name: str, tags: Iterable[str]) -> UsageError:
    known = sorted(tags)
    near = get_close_matches(name, known)
    fix = f"Did you mean {' or '.join(TAG_WORD + tag for tag in near)}?" if near else f"Known tags: {', '.join(known)}."
    return UsageError(
        f"no task of this project has the tag {name!r}",
        fix=fix if known else f'No task has any: declare it with @task(…, tags=("{name}",)).',
    )


def _above(project: Project, name: str) -> Iterable[str]:
    return (up.name for up in project.upstream(project.tasks[name]))


def _below(project: Project, name: str) -> Iterable[str]:
    return (task.name for task in project.tasks.values() if name in _above(project, task.name))


def _reached(names: set[str], next_to: Callable[[str], Iterable[str]]) -> set[str]:
    """Everything that can be reached from these, step by step."""
    found: set[str] = set()
    left = list(names)
    while left:
        for name in next_to(left.pop()):
            if name not in found:
                found.add(name)
                left.append(name)
    return found
