"""Finding the tasks of a project: its pipeline files are imported, and every task they define is taken."""

from __future__ import annotations

import importlib
import linecache
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from twice.core.failure.interruption import raised_by_handler
from twice.core.failure.user_code import USER_CODE_FAILS
from twice.core.project.project import Project, assemble
from twice.core.task import Task
from twice.errors import DeclarationError, TwiceError


def discover(project_id: str, root: Path, folders: Sequence[Path], format_: str = "delta") -> Project:
    """Import each file under the pipeline folders as a module of the project, in the order of their names."""
    tasks: dict[int, Task] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DeclarationError(
                f"there is no folder {_shown(folder, root)} with pipelines",
                fix="Create it, or name another one with pipelines = […] in twice.toml.",
            )
        _forget(folder, root)
        for file in pipeline_files(folder):
            tasks.update({id(task): task for task in _tasks_in(file, root)})
    return assemble(project_id, tasks.values(), format_)


def pipeline_files(folder: Path) -> list[Path]:
    """Those of a pipeline folder, in the order of their names. One whose name begins with _ or . is none."""
    return [
        file
        for file in sorted(folder.rglob("*.py"))
        if not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    ]


def module_file(path: Path) -> Path | None:
    """The file that Python runs for a module: of a package and a module of one name the package."""
    files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _tasks_in(file: Path, root: Path) -> list[Task]:
    parts = file.relative_to(root).with_suffix("").parts
    name = ".".join(parts)
    if not all(part.isidentifier() for part in parts):
        raise DeclarationError(
            f"{_shown(file, root)} cannot be imported: its path is not a valid Python module name",
            fix="Rename it with letters, digits and _.",
        )
    if sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except TwiceError as error:
        error.at(_shown(file, root))
        raise
    except USER_CODE_FAILS as error:
        if raised_by_handler(error):
            raise
        raise DeclarationError(
            f"{_shown(file, root)}{_line(error, file)} cannot be imported: {type(error).__name__}: {error}",
            now="No task was run.",
            fix="Correct the file; a pipeline file only declares, so importing it must not fail.",
        ) from error
    return [value for value in vars(module).values() if isinstance(value, Task)]


def _line(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f":{lines[-1]}" if lines else ""


def _forget(folder: Path, root: Path) -> None:
    """Import afresh: a notebook edits a file and opens its project again, and two projects opened in one process
    may both have a module `pipelines.revenue`."""
    top = folder.relative_to(root).parts[0]
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]
    linecache.checkcache()  # the code hash reads sources from there: they must be those imported now


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
