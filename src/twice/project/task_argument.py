"""A task that a caller in Python gives by itself, in the place of its name.

A project's tasks are those of its files: the next run, every worker and every proof read them there. So an object
stands for the declaration in the file, and one that says something else is refused: docs/decisions/0023.
"""

from __future__ import annotations

from pathlib import Path

from twice.core.task import Task
from twice.errors import UsageError
from twice.wiring.open_project import OpenProject


def name_of(given: Task | str) -> str:
    """Where only the name counts, because nothing of the task is run."""
    if isinstance(given, str):
        return given
    if not isinstance(given, Task):
        raise UsageError(
            f"a {type(given).__name__} is not a task", fix="Give a task's name, or what @task or sql_task(…) returned."
        )
    return given.name


def declared_as(opened: OpenProject, given: Task | str) -> str:
    """The name of the project's task that is given. Raises UsageError if the project does not declare it just so."""
    name = name_of(given)
    if isinstance(given, str):
        return opened.project.task(name).name
    if name not in opened.project.tasks:
        raise UsageError(
            f"the task that was given is declared in {_home(opened, given)}, and in no file of the project",
            where=name,
            now="Nothing was run.",
            fix=f"Write it into a file of {_folders(opened)} (in a notebook: %%writefile). {_preview(name)}",
        )
    declared = opened.project.tasks[name]
    differing = [] if declared is given else _differing(opened, declared, given)
    if differing:
        raise UsageError(
            f"the task that was given is declared in {_home(opened, given)}, and is not the same as the one in "
            f"{_home(opened, declared)} (what differs: {', '.join(differing)})",
            where=name,
            now="Nothing was run.",
            fix="A task is always run as its file declares it. To run your change, write it into that file (in a "
            "notebook: %%writefile) and import it again. To run what the file declares, give the name: "
            f'"{name}". {_preview(name)}',
        )
    return name


def _differing(opened: OpenProject, declared: Task, given: Task) -> list[str]:
    parts, others = opened.declaration(declared), opened.declaration(given)
    return [part for part, text in parts.items() if others[part] != text]


def _home(opened: OpenProject, task: Task) -> str:
    # A cell of a notebook is given the name of a file that there is not.
    file = task.source if task.source is not None and task.source.is_file() else None
    return "a notebook or at a prompt" if file is None else _shown(opened, file)


def _folders(opened: OpenProject) -> str:
    return " or ".join(_shown(opened, folder) for folder in opened.settings.pipelines)


def _shown(opened: OpenProject, path: Path) -> str:
    root = opened.settings.root
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _preview(name: str) -> str:
    return f"{name}.preview(date) shows the rows of the task that was given, and publishes nothing."
