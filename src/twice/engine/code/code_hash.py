"""Same code? One hash over everything of a task that can change the rows of a slice.

It covers the function and the project's code it depends on (modules.py), values it closes over, its SQL, and the
declared options that shape the result: inputs and how they are cut, the scope's column, grain, zone and slice
column, and the write strategy.

Left out on purpose, because no row of a published slice would be another: audits (a stricter audit must not force
a recompute; it holds from the next publish on), the policy (when to rerun, what to allow), the scope's `start` and
`lookback` (which slices there are, not what is in one), names, tags, comments, docstrings. What the code takes from
elsewhere while it runs is not here but in the plan it makes, and is compared there (outside_calls.py). When in doubt it
counts: a needless recompute is IDENTICAL.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from twice.core.closed import assert_never
from twice.core.file_input import Files
from twice.core.ledger.code_parts import CodeParts
from twice.core.param import Param
from twice.core.scope import Daily, Every, Hourly, Monthly, Scope, Whole
from twice.core.since import Since
from twice.core.task import UNLESS_DEFAULT, Input, Read, Task
from twice.engine.code import modules
from twice.engine.code.modules import CountedFile
from twice.engine.code.parts import Piece, named_parts, pieces_of, text_of
from twice.engine.code.sql import normalised
from twice.engine.code.syntax import meaning, module_names_in

_RECIPE = "twice code 1"
"""Changing what is hashed makes every task stale once; then change this, so that it is seen to be so."""


@dataclass(frozen=True)
class _Within:
    """The values around one that is written down: `ids` ends a ring of those that hold each other. `name_then`: the
    name of a renamed task's function, now and when it was first published."""

    ids: tuple[int, ...] = ()
    name_then: Mapping[str, str] = field(default_factory=dict)

    def and_inside(self, value: Any) -> _Within:
        return replace(self, ids=(*self.ids, id(value)))


_FUNCTIONS = (FunctionType, MethodType, functools.partial, Task)
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def code_hash(task: Task) -> str:
    """32 hexadecimal digits, the same in every process and on every machine with the same project."""
    texts = [_RECIPE, *(piece.text for piece in _pieces(task))]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def code_parts(task: Task, root: Path) -> CodeParts:
    """What the hash covers, part by part, in words: functions, constants, classes and imports with their file, options,
    values. `root` is the project's folder. Names and digests are the same wherever the hash is."""
    return named_parts(_pieces(task), root.resolve())


def declaration(task: Task) -> dict[str, str]:
    """Everything that a task is declared with, part by part, as texts that are equal where two declarations are: also
    those of two imports of one file."""
    held = ("scope", "inputs", "write", "audits", "effects", "policy", "formerly", "tags")
    code = [] if _is_ours(task.function) else [each.text for each in _callable(task.function, _Within())]
    code += [] if task.sql is None else [normalised(task.sql)]
    parts = {"code": "\n".join(code), "target": str(task.target)}
    return {**parts, **{name: _value(getattr(task, name), _Within()) for name in held}}


def _name_then(task: Task) -> dict[str, str]:
    """A function that has its task's name was renamed with it, and by that alone it is not other code."""
    return {task.name: task.first_name} if task.formerly else {}


def _pieces(task: Task) -> Iterator[Piece]:
    yield Piece("scope=", f"scope {_scope(task.scope)}")
    for name, source in sorted(task.inputs.items()):
        yield Piece(f"input {name}", f"input {json.dumps([name, *_input(source)])}")
    yield Piece("write=", f"write {task.write.name} {_value(task.write, _Within())}")
    if task.sql is not None:
        yield Piece("SQL", f"sql {normalised(task.sql)}", task.sql_file)
    if not _is_ours(task.function):
        yield from _callable(task.function, _Within(name_then=_name_then(task)))


def _input(source: Input) -> list[Any]:
    """How an input is read. Which files, and which value, is not code: the leaves of a slice say it."""
    match source:
        case Read():
            return [str(source.table).lower(), source.by, source.before.total_seconds()]
        case Files():
            how = [source.format, source.schema, sorted(source.options.items()), source.path_column]
            return ["files", *how, source.by, source.before.total_seconds()]
        case Param():
            return ["param"]
        case _:
            assert_never(source)


def _scope(scope: Scope) -> str:
    match scope:
        case Whole():
            return "whole"
        case Since():
            return json.dumps(["since", scope.cursor, scope.type])
        case Daily() | Monthly() | Hourly() | Every():
            held = scope.held_in
            return json.dumps([held.grain, held.source, held.name, held.type, held.zone, held.minutes])
        case _:
            assert_never(scope)


def _is_ours(function: Callable[..., Any]) -> bool:
    """What `sql_task` makes for itself adds nothing to the SQL."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "twice"


def _callable(function: Any, within: _Within) -> Iterator[Piece]:
    """The text of a function and of the values it holds. `within` ends a ring of them."""
    if id(function) in within.ids:
        yield Piece("", "itself")
        return
    within = within.and_inside(function)
    if isinstance(function, functools.partial):
        yield Piece("its partial arguments", f"partial {_value((function.args, function.keywords), within)}")
        yield from _callable(function.func, within)
    elif isinstance(function, MethodType):
        yield Piece("the object it is a method of", f"self {_value(function.__self__, within)}")
        yield from _callable(function.__func__, within)
    elif isinstance(function, FunctionType):
        yield from _wrapped(function, within)
        yield from _held(function, within)
        yield _source(function, within)
    elif isinstance(function, Task):
        yield from _callable(function.function, within)
    else:
        yield Piece(f"the {type(function).__qualname__} that is called", f"object {_value(function, within)}")
        called = inspect.getattr_static(type(function), "__call__", None)
        if isinstance(called, FunctionType):
            yield from _callable(called, within)


def _wrapped(function: FunctionType, within: _Within) -> Iterator[Piece]:
    """The function beneath a decorator that used functools.wraps."""
    inner = getattr(function, "__wrapped__", None)
    if inner is not None:
        yield from _callable(inner, within)


def _held(function: FunctionType, within: _Within) -> Iterator[Piece]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        called = f"the value {name} that it closes over"
        try:
            yield _named_value(called, f"closes over {name} = ", cell.cell_contents, within)
        except ValueError:
            yield Piece(called, f"closes over {name}, not yet bound")
    if function.__defaults__ or function.__kwdefaults__:
        defaults = (function.__defaults__, function.__kwdefaults__)
        yield Piece("its default arguments", f"defaults {_value(defaults, within)}")


def _named_value(name: str, before: str, value: Any, within: _Within) -> Piece:
    """A value with the text before it. Of a function, and of a module of the project, the parts have names too."""
    if isinstance(value, ModuleType):
        files = _module_files(value)
        return Piece(name, f"{before}{_module_text(value, files)}", inside=pieces_of(files))
    if isinstance(value, _FUNCTIONS) and id(value) not in within.ids:
        inside = tuple(_callable(value, within))
        return Piece(name, f"{before}{_function_text(inside)}", inside=inside)
    return Piece(name, f"{before}{_value(value, within)}")


def _source(function: FunctionType, within: _Within) -> Piece:
    path, called = Path(function.__code__.co_filename), function.__qualname__
    if path.is_file():
        path = path.resolve()
        if len(within.ids) > 1 and not modules.is_project(path):
            return Piece(called, f"{function.__module__}.{called}")  # an installed function held as a value
        module = modules.load(path)
        if module is not None:
            name = called.partition(".")[0]
            then = within.name_then.get(name, name)
            files = modules.files_for(module, name, function.__code__.co_firstlineno, then)
            return Piece(called, text_of(files), inside=pieces_of(files))
    return _loose(function, within)


def _loose(function: FunctionType, within: _Within) -> Piece:
    """A function of a notebook or a prompt: there is no module to read, so the globals it names count as values."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        text, names = _bytecode(function.__code__), set(_names(function.__code__))
    else:
        bodies = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for body in bodies:
            body.decorator_list = []  # `@task(…)` under whatever name the notebook imported it
            body.name = within.name_then.get(body.name, body.name)
        text, names = meaning(tree), set(module_names_in(tree))
    used = sorted(names & function.__globals__.keys())
    values = [_named_value(name, f"{name} = ", function.__globals__[name], within) for name in used]
    inside = (Piece(function.__qualname__, text), *values)
    return Piece(function.__qualname__, "\n".join(each.text for each in inside), inside=inside)


def _bytecode(code: CodeType) -> str:
    """Differs between minor versions of Python, where there is nothing better."""
    constants = [_bytecode(each) if isinstance(each, CodeType) else _value(each, _Within()) for each in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _value(value: Any, within: _Within) -> str:
    """A text that is the same in another process: never an address, never the order of a set.

    An object that shows no fields counts by its class alone.
    """
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!a}"
    if id(value) in within.ids:
        return "itself"
    inner = within.and_inside(value)
    if isinstance(value, Mapping):
        items = [f"{_value(key, inner)}: {_value(item, inner)}" for key, item in value.items()]
        return f"{type(value).__name__} {{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} [{', '.join(_value(item, inner) for item in value)}]"
    if isinstance(value, set | frozenset):
        return f"set {{{', '.join(sorted(_value(item, inner) for item in value))}}}"
    if isinstance(value, ModuleType):
        return _module_text(value, _module_files(value))
    if isinstance(value, _FUNCTIONS):
        return _function_text(_callable(value, within))
    return f"{type(value).__module__}.{type(value).__qualname__} {_fields(value, inner)}"


def _fields(value: Any, within: _Within) -> str:
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__} {_methods(value, within)}"
    if is_dataclass(value):
        return _value({each.name: getattr(value, each.name) for each in fields(value) if _counts(each, value)}, within)
    if type(value).__module__.partition(".")[0] in _BY_TEXT:
        return ascii(str(value))
    shown = getattr(value, "__dict__", None)
    return _value(shown, within) if isinstance(shown, dict) and len(within.ids) < 8 else ""


def _counts(each: Field[Any], value: Any) -> bool:
    """What a later version of a declaration added counts only where somebody says it: code of before stays the same."""
    return each.metadata.get("hashed") != UNLESS_DEFAULT["hashed"] or getattr(value, each.name) != each.default


def _methods(value: type, within: _Within) -> list[str]:
    """The code of a class of a notebook or prompt; a class of a module comes with the module."""
    if hasattr(sys.modules.get(value.__module__), "__file__"):
        return []
    return [f"{name} {_value(each, within)}" for name, each in vars(value).items() if isinstance(each, FunctionType)]


_BY_TEXT = frozenset({"datetime", "decimal", "fractions", "uuid", "pathlib", "re", "zoneinfo", "ipaddress"})
"""Standard modules with values that are complete as text."""


def _function_text(pieces: Iterable[Piece]) -> str:
    return f"function {[each.text for each in pieces]}"


def _module_text(value: ModuleType, files: tuple[CountedFile, ...]) -> str:
    return f"module {value.__name__}" + (f" {text_of(files)}" if files else "")


def _module_files(value: ModuleType) -> tuple[CountedFile, ...]:
    """A project module held as a value counts by its code."""
    origin = getattr(value, "__file__", None)
    path = Path(origin).resolve() if origin else None
    module = modules.load(path) if path is not None and modules.is_project(path) else None
    return modules.files_for(module, "", 0, "") if module is not None else ()
