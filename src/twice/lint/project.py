"""What only shows when all files are seen together: who runs whom, which tables have keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twice.lint.facts import TaskFact, WriteFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.guards import guarded
from twice.lint.settings import LintSettings


def linked(files: Iterable[FileFacts], settings: LintSettings) -> ProjectFacts:
    """The project of these files, with guards that one file gives another."""
    all_files = _with_imported(tuple(files))
    traits = frozenset(trait for file in all_files for trait in file.traits)
    keys: dict[str, tuple[str, ...]] = {}
    for file in all_files:
        for write in file.writes:
            if write.verb == "create" and write.key:
                keys.setdefault(write.target, write.key)
    sessions = {file.module for file in all_files if "dynamic_overwrite" in file.traits and file.module}
    return ProjectFacts(
        files=tuple(guarded(file, _with_session(file, sessions, settings)) for file in all_files),
        traits=traits,
        tasks_of=_tasks_of(all_files),
        keys=keys,
    )


def _with_imported(files: tuple[FileFacts, ...]) -> tuple[FileFacts, ...]:
    """A statement kept as a constant in one module and run in another is a write of both."""
    constants: dict[str, list[tuple[FileFacts, WriteFact]]] = {}
    for file in files:
        for write in file.writes:
            if write.constant and file.module:
                constants.setdefault(write.constant, []).append((file, write))
    if not constants:
        return files
    linked_files = []
    for file in files:
        imported = {part for name in file.imports for part in name.split(".")}
        run = tuple(
            replace(write, place=fact.place, constant="", kept_in=owner.path)
            for fact in file.runs
            for owner, write in constants.get(fact.name, ())
            if owner.path != file.path and owner.module in imported
        )
        linked_files.append(replace(file, writes=file.writes + run) if run else file)
    return tuple(linked_files)


def _with_session(file: FileFacts, sessions: set[str], settings: LintSettings) -> LintSettings:
    """Dynamic overwrite that a shared module sets when it builds the session counts for those who import it."""
    imported = {part for name in file.imports for part in name.split(".")}
    return replace(settings, dynamic_overwrite=True) if imported & sessions else settings


def _tasks_of(files: tuple[FileFacts, ...]) -> dict[str, tuple[tuple[str, TaskFact], ...]]:
    by_module: dict[str, list[FileFacts]] = {}
    by_name: dict[str, list[FileFacts]] = {}
    for file in files:
        by_module.setdefault(file.module, []).append(file)
        by_name.setdefault(file.path.rsplit("/", 1)[-1], []).append(file)
    found: dict[str, list[tuple[str, TaskFact]]] = {}
    for file in files:
        for task in file.tasks:
            found.setdefault(file.path, []).append((file.path, task))
            for name in task.files:
                for other in by_name.get(name.rsplit("/", 1)[-1], ()):
                    # The task's own settings may be the DAG's: a reader of the SQL file needs both.
                    found.setdefault(other.path, []).extend(
                        (file.path, known) for known in file.tasks if known.kind == "dag" or known is task
                    )
            if task.kind == "dag":
                for imported in task.modules:
                    for part in imported.split("."):
                        for other in by_module.get(part, ()) if part else ():
                            if other.path != file.path:
                                found.setdefault(other.path, []).append((file.path, replace(task, units=())))
    return {path: tuple(dict.fromkeys(tasks)) for path, tasks in found.items()}
