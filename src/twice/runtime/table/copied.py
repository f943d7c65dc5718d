"""Who made the rows of a slice? A rebuild that copied them has moved its token and made nothing."""

from __future__ import annotations

from collections.abc import Mapping

from twice.core.ports import Target
from twice.core.table.token import token_name
from twice.core.task import Task


def rows_made_at(
    project: str, task: Task, target: Target, generations: Mapping[str, int], since: Mapping[str, int]
) -> dict[str, int]:
    """By label: the generation whose commit made the rows that the table has at the given one, no further back than
    `since`. A commit that the log forgot counts as theirs. Reads the notes only of what has moved since."""
    found = {}
    for label, generation in generations.items():
        name, made = token_name(project, task.first_name, label), generation
        while made > since.get(label, made):
            note = target.provenance(task.target, name, made)
            if note is None or label not in note.copied:
                break
            made -= 1
        found[label] = made
    return found
