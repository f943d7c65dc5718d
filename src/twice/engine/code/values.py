"""Same function? What a Python function that runs in Spark's workers computes with, as one hash.

A plan shows such a function by its name alone. So it is followed here: its code, its defaults, what it closes over, and
every global it names, through the functions and classes of the project that it calls. Values count by their content, as
pickle would take them apart. Of an installed package the version counts. Whatever cannot be taken apart (a lock, a
client, a closure too large to send with the function), and a function that reads the clock, random numbers, files, the
environment or the network while it runs, is never shown to be the same: it has no hash, and a reason instead.
"""

from __future__ import annotations

import ast
import copyreg
import enum
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from twice.engine.code.names import UsedName, used_names
from twice.engine.code.outside_calls import Evidence, outside_call, outside_call_of_value
from twice.engine.code.packages import STANDARD, file_of_module, is_of_project, is_package_of_project, version_of
from twice.engine.code.syntax import meaning

_CALLABLE = (FunctionType, BuiltinFunctionType, MethodType, type)
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_MOST = 200_000
"""So many values are looked at; beyond that a comparison would cost more than it saves."""


@dataclass(frozen=True)
class FunctionIdentity:
    """One function: the hash of all that it computes with, or why it has none."""

    name: str
    identity: str | None
    why: str = ""


class _Opaque(Exception):
    """Something that cannot be compared, in words."""


def identify_function(name: str, function: Any, home: Path | None = None) -> FunctionIdentity:
    """Runs nothing of the function. `home`: the task's own package, which counts like a project though installed."""
    look = _Look(home)
    hasher = _Hasher(look)
    try:
        hasher.feed(function)
    except _Opaque as opaque:
        return FunctionIdentity(name, None, str(opaque))
    except RecursionError:
        return FunctionIdentity(name, None, "holds values that are nested too deep to compare")
    outside = look.evidence.outside_call()
    return FunctionIdentity(name, hasher.digest()) if outside is None else FunctionIdentity(name, None, outside)


class _Look:
    """One visit of one function: how many values are left to look at, and what was found on the way."""

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self.left = _MOST
        self.evidence = Evidence(self.is_project)
        self._packages: dict[str, bool] = {}

    def is_project(self, top: str) -> bool:
        if top not in self._packages:
            self._packages[top] = is_package_of_project(top, self.home)
        return self._packages[top]

    def refuse(self, outside: str | None) -> None:
        if outside is not None:
            raise _Opaque(outside)


class _Hasher:
    """Feeds a value's content to a hash: never an address, never the order of a set."""

    def __init__(self, look: _Look) -> None:
        self._look = look
        self._hash = hashlib.sha256()
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []  # an id is only good while its object lives

    def digest(self) -> str:
        return self._hash.hexdigest()[:32]

    def feed(self, value: Any, *, checked: bool = False) -> None:
        """`checked`: what the function does with it is known to read nothing from outside."""
        self._look.left -= 1
        if self._look.left < 0:
            raise _Opaque(f"holds more than {_MOST:,} values, too many to compare")
        if type(value) in _PLAIN:
            self._write(f"{type(value).__name__} {value!a}")
        elif id(value) in self._known:
            self._write(f"again {self._known[id(value)]}")
        else:
            self._known[id(value)] = len(self._known)
            self._kept.append(value)
            if not checked and isinstance(value, _CALLABLE):
                self._look.refuse(outside_call_of_value(value, self._look.is_project))
            self._feed(value)

    def _write(self, text: str) -> None:
        self._hash.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))

    def _feed(self, value: Any) -> None:
        if type(value) is dict:
            self._sequence("dict", [each for item in value.items() for each in item])
        elif type(value) in (list, tuple):
            self._sequence(type(value).__name__, value)
        elif type(value) in (set, frozenset):
            self._write(f"set {sorted(self._element_digest(each) for each in value)}")
        elif isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, MethodType):
            self._write("method")
            self.feed(value.__self__, checked=True)
            self.feed(value.__func__, checked=True)
        elif isinstance(value, BuiltinFunctionType):
            owner = value.__self__
            self._write(f"builtin {value.__qualname__} {version_of(value.__module__)}")
            self.feed(owner.__name__ if isinstance(owner, ModuleType) else owner, checked=True)
        elif isinstance(value, CodeType):
            self._code(value)
        else:
            self._object(value)

    def _element_digest(self, value: Any) -> str:
        """An element of a set: its place among the others does not count."""
        inner = _Hasher(self._look)
        inner.feed(value)
        return inner.digest()

    def _sequence(self, kind: str, items: Any) -> None:
        self._write(f"{kind} {len(items)}")
        for item in items:
            self.feed(item)

    def _module(self, module: ModuleType) -> None:
        self._write(f"module {module.__name__} {version_of(module.__name__)}")
        if is_of_project(
            module.__name__, file_of_module(module.__name__) or getattr(module, "__file__", None), self._look.home
        ):
            for name, value in sorted(vars(module).items()):
                if not name.startswith("__") and not isinstance(value, ModuleType):
                    self._sequence(name, [value])

    def _function(self, function: FunctionType) -> None:
        """What it holds counts whoever owns it: a package's factory takes it from the project."""
        self._write(f"function {function.__qualname__}")
        ours = is_of_project(function.__module__, function.__code__.co_filename, self._look.home)
        self._write(_text(function) if ours else f"{function.__module__} {version_of(function.__module__)}")
        self._held(function)
        if ours:
            found = used_names(function)
            self._look.evidence.add(found)
            for each in found.reached:
                self._reached(each)

    def _held(self, function: FunctionType) -> None:
        self._sequence("defaults", [function.__defaults__, function.__kwdefaults__])
        if isinstance(vars(function).get("registry"), MappingProxyType):  # functools.singledispatch, less its cache
            self._sequence("dispatches", [vars(function).get("__wrapped__"), dict(vars(function)["registry"])])
            return
        for name, value in sorted(vars(function).items()):
            self._write(f"keeps {name}")
            self.feed(value)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._write(f"closes over {name}")
            try:
                held = cell.cell_contents
            except ValueError:
                continue  # not yet bound: the function is being defined
            self.feed(held)

    def _reached(self, each: UsedName) -> None:
        self._look.refuse(outside_call(each, self._look.is_project))
        self._write(each.dotted)
        if each.unloaded is not None:
            self._unloaded(each.unloaded)
        else:
            self.feed(each.value, checked=True)

    def _unloaded(self, name: str) -> None:
        """A module that only the function itself imports: it is not loaded here to find out."""
        top = name.partition(".")[0]
        if top not in STANDARD and file_of_module(top) is None:
            raise _Opaque(f"imports {name}, which is not found here")
        if self._look.is_project(top):
            raise _Opaque(f"imports {name} only while it runs: what that holds then is not known before")
        self._write(f"module {name} {version_of(name)}")

    def _class(self, value: type) -> None:
        self._write(f"class {value.__module__}.{value.__qualname__}")
        if not is_of_project(value.__module__, file_of_module(value.__module__), self._look.home):
            self._look.evidence.add_kind(value)
            self._write(version_of(value.__module__))
            return
        self._sequence("bases", value.__bases__)
        for name, part in _attributes(value):
            self._write(name)
            self.feed(part)

    def _object(self, value: Any) -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        self._write(f"{kind} {version_of(type(value).__module__)}")
        self._look.evidence.add_kind(type(value))
        if kind == "pyspark.core.broadcast.Broadcast":
            raise _Opaque("holds a broadcast variable, which cannot be compared")  # it would reduce to a running number
        if type(value).__module__.startswith("pyspark.") and hasattr(value, "returnType"):
            self._sequence("udf", [value.func, str(value.returnType), value.evalType])
            return
        if hasattr(value, "__wrapped__"):  # a function behind a cache
            self.feed(value.__wrapped__)
        try:
            reduced = _reduced(value)
        except Exception as error:
            raise _Opaque(f"holds a {kind}, which cannot be compared") from error
        if isinstance(reduced, str):
            self._write(reduced)
            return
        made, arguments, *rest = reduced
        self.feed(type(value), checked=True)
        self.feed(made, checked=True)
        self.feed(arguments)
        for part in rest[:3]:
            self.feed(list(part) if isinstance(part, Iterator) else part)

    def _code(self, code: CodeType) -> None:
        self._write(f"{code.co_code.hex()} {code.co_names} {code.co_varnames}")
        self._sequence("constants", code.co_consts)


def _attributes(value: type) -> Iterator[tuple[str, Any]]:
    """What a class defines itself: its methods beneath their descriptors, and its values. Not what Python keeps in
    it, nor the tables that an Enum or a dataclass makes of its own lines."""
    if issubclass(value, enum.Enum):
        yield from ((name, member.value) for name, member in value.__members__.items())
    for name, each in vars(value).items():
        part = _beneath(each)
        own = not issubclass(value, enum.Enum) and not inspect.isdatadescriptor(each) and name != "_abc_impl"
        if isinstance(part, FunctionType) or (own and not (name.startswith("__") and name.endswith("__"))):
            yield name, part


def _beneath(attribute: Any) -> Any:
    if isinstance(attribute, staticmethod | classmethod):
        return attribute.__func__
    if isinstance(attribute, property):
        return attribute.fget
    return attribute.func if isinstance(attribute, functools.cached_property) else attribute


def _reduced(value: Any) -> Any:
    reduce = copyreg.dispatch_table.get(type(value))
    return reduce(value) if reduce is not None else value.__reduce_ex__(4)


def _text(function: FunctionType) -> str:
    """Its source as meaning; its bytecode where there is none, or where its line is not its own (a lambda)."""
    code = function.__code__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return _written(code)
    (first, *others) = tree.body or [ast.Pass()]
    if others or not isinstance(first, ast.FunctionDef) or first.name != function.__name__:
        return _written(code)
    first.decorator_list = []
    return meaning(first)


def _written(code: CodeType) -> str:
    """Differs between minor versions of Python."""
    constants = [_written(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _constant(value: Any) -> str:
    return str(sorted(map(ascii, value))) if isinstance(value, frozenset) else ascii(value)
