"""What must hold of any task, checked where it is declared: a mistake is reported before anything runs."""

from __future__ import annotations

import inspect
from typing import get_args

from twice.core.file_input import Files, check_placeholders, of_one_slice
from twice.core.param import Param
from twice.core.scope import Scope, Whole
from twice.core.since import Since
from twice.core.task import NAME, RUN_PARAMETER, Read, Task
from twice.core.time_scope import TimeScope
from twice.errors import DeclarationError


def check_task(task: Task) -> None:
    """Raise DeclarationError for the first thing that is wrong."""
    _check_names(task)
    _check_called(task)
    _check_parameters(task)
    _check_slices(task)
    _check_files(task)
    _check_watched(task)
    if isinstance(task.scope, Since):
        _check_cursor(task, task.scope)
        _check_sent_again(task)
    try:
        task.write.check(task.scope, task.policy)
    except DeclarationError as error:
        error.at(task.name)
        raise
    if task.write.kind == "append":
        _check_appended(task)


def _check_names(task: Task) -> None:
    if not NAME.fullmatch(task.name):
        raise DeclarationError(
            f"{task.name!r} is not a task name", fix="Use letters, digits and _, e.g. revenue_daily."
        )
    for old in task.formerly:
        if not NAME.fullmatch(old):
            raise DeclarationError(f"formerly={old!r} is not a task name", where=task.name)


def _check_called(task: Task) -> None:
    """`write=replace` and `scope=Daily` are easily written, and neither is a strategy or a scope yet."""
    if not isinstance(task.scope, get_args(Scope)):
        raise DeclarationError(
            f"scope={_written(task.scope)} is not a scope",
            where=task.name,
            fix='Write scope=Daily("order_date", start="2026-01-01"), scope=Whole() or another scope.',
        )
    if isinstance(task.write, type) or not hasattr(task.write, "compile"):
        raise DeclarationError(
            f"write={_written(task.write)} is not a strategy",
            where=task.name,
            fix='Write write=replace(), merge("key", newest_by="…"), insert_new("key") or append_once().',
        )


def _written(value: object) -> str:
    return str(getattr(value, "__name__", repr(value)))


def _check_slices(task: Task) -> None:
    """Inputs are cut to a slice, and a query asks for one, only where the scope has such slices."""
    for name, source in task.inputs.items():
        if not isinstance(source, Param) and source.by is not None and isinstance(task.scope, Whole):
            raise DeclarationError(
                f"input {name} is cut by {source.by}, but a Whole() task has no slice to cut it to",
                where=task.name,
                fix="Leave out by=.",
            )
    if task.parameters and not isinstance(task.scope, TimeScope):
        raise DeclarationError(
            f"the query asks for :{task.parameters[0]}, and {type(task.scope).__name__}(…) has no slice that begins "
            "and ends",
            where=task.name,
            fix="Leave it out: an input with by= is already cut.",
        )
    if isinstance(task.scope, TimeScope) and task.scope.batch and "ds" in task.parameters:
        raise DeclarationError(
            "batch=True says that the query is right for several slices at once, but it takes :ds, the label of one",
            where=task.name,
            fix="Cut by :start and :end (or by the slice column), or leave out batch=True.",
        )


def _check_files(task: Task) -> None:
    """A placeholder needs a slice that begins and ends, and a cursor a table that remembers its versions."""
    for name, source in task.files.items():
        if isinstance(task.scope, TimeScope):
            check_placeholders(source, task.scope, task.name)
        elif source.placeholders:
            raise DeclarationError(
                f"input {name} has files by {{{source.placeholders[0]}}}, and {type(task.scope).__name__}(…) has no "
                "slice that begins and ends",
                where=task.name,
                fix="Write * in its place, or cut the task by time: scope=Daily(…).",
            )
        elif source.by is not None and isinstance(task.scope, Since):
            raise DeclarationError(
                f"input {name} is files, and Since({task.scope.cursor!r}) goes on from a mark in a table",
                where=task.name,
                fix="Load the files into a table by a task of its own, replace() on Daily(…), and read that table.",
            )


def _check_watched(task: Task) -> None:
    tables = {source.table: source.watch for source in task.tables.values()}
    for name, source in task.tables.items():
        if source.watch != tables[source.table]:
            raise DeclarationError(
                f"input {name} reads {source.table}, which another input reads with another watch=",
                where=task.name,
                fix="Say the same for both: a table is watched or it is not.",
            )


def _check_sent_again(task: Task) -> None:
    mute = [effect.name for effect in task.effects if effect.again == "never"]
    if mute:
        raise DeclarationError(
            f"the effect {mute[0]} would be sent once and never again: an incremental task has one slice for ever",
            where=task.name,
            fix='Say again="on_restate": then it is sent once for each mark.',
        )


def _check_appended(task: Task) -> None:
    """Without a key, nothing but the cut of its inputs keeps one slice's rows apart from another's."""
    if isinstance(task.scope, TimeScope) and not _is_cut(task, task.scope) and not task.asks_for_slice:
        raise DeclarationError(
            "no input is cut to the slice, so append_once() would add the same rows for every slice",
            where=task.name,
            fix='Cut one, read("…", by="event_date"), or append the whole table once: scope=Whole().',
        )
    _refuse_not_shrunk(task, "append_once() writes it only once")


def _is_cut(task: Task, scope: TimeScope) -> bool:
    sources: tuple[Read | Files, ...] = (*task.tables.values(), *task.files.values())
    return any(each.by is not None for each in sources) or any(
        of_one_slice(each, scope) for each in task.files.values()
    )


def _check_cursor(task: Task, scope: Since) -> None:
    """One input is read from the mark on; the upper bound is read from it too, so it must be known which."""
    cut = [name for name, source in task.tables.items() if source.by is not None]
    if len(cut) != 1 or task.tables[cut[0]].by != scope.cursor:
        raise DeclarationError(
            f"Since({scope.cursor!r}) needs exactly one input that is cut by {scope.cursor}, "
            f"and {', '.join(cut) or 'no input'} is cut",
            where=task.name,
            fix=f'Write read("…", by="{scope.cursor}") for the input with the cursor, and no by= for the others.',
        )
    if task.tables[cut[0]].before:
        raise DeclarationError(
            "before= has no meaning on Since(…): the mark says where reading begins",
            where=task.name,
            fix="Leave it out; lag= on the scope waits for late rows.",
        )
    if task.policy.rerun != "when_changed":
        raise DeclarationError(
            f'rerun="{task.policy.rerun}" has no meaning on Since(…): every run goes on from the mark',
            where=task.name,
            fix="Leave it out. To read rows again, set the mark back: twice mark reset.",
        )
    _refuse_not_shrunk(task, "every run of Since(…) reads other rows")


def _refuse_not_shrunk(task: Task, why: str) -> None:
    for audit in task.audits:
        if audit.kind == "not_shrunk":
            raise DeclarationError(
                f"audit.{audit.name} compares a slice with what it held before, and {why}",
                where=task.name,
                fix="Leave it out; audit.rows(at_least=…) says how many there must be.",
            )


def _check_parameters(task: Task) -> None:
    """Inputs and parameters match by name; otherwise the first call would be the first to notice."""
    parameters = inspect.signature(task.function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    wanted = {n for n, p in parameters.items() if p.default is inspect.Parameter.empty} - {RUN_PARAMETER}
    missing, unknown = sorted(wanted - set(task.inputs)), sorted(set(task.inputs) - set(parameters))
    if missing:
        raise DeclarationError(
            f"the function takes {', '.join(missing)}, which inputs= does not declare",
            where=task.name,
            fix=f'Add inputs={{"{missing[0]}": read("…")}}.',
        )
    if unknown:
        raise DeclarationError(
            f"inputs= declares {', '.join(unknown)}, which the function does not take",
            where=task.name,
            fix="Give the function a parameter of that name.",
        )
