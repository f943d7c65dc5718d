"""What a Python function names, and whether one of these gives another answer tomorrow. Its code is read, never run."""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

_CLOCK = frozenset(
    {f"time.{name}" for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime")}
    | {f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")}
    | {"datetime.date.today"}
    | {f"pandas.Timestamp.{name}" for name in ("now", "utcnow", "today")}
)
_DICE = frozenset({"uuid.uuid1", "uuid.uuid4", "os.urandom", "random.SystemRandom"})
_DICE_OF = ("random.", "secrets.", "numpy.random.")
_SEEDED = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator"})
_OUTSIDE = frozenset(
    {"builtins.open", "_io.open", "io.open", "os.environ", "os.environb", "os.getenv", "os.popen", "os.system"}
    | {"os.listdir", "os.scandir", "os.walk", "os.stat", "builtins.input"}
)
_OUTSIDE_OF = ("urllib.request.", "http.client.", "socket.", "subprocess.", "requests.", "httpx.", "boto3.")
_READING = frozenset({"read_text", "read_bytes"})
"""Methods that are called on something the function has made; nobody else has such names."""
_ANYTHING = frozenset({"builtins.eval", "builtins.exec", "builtins.__import__", "importlib.import_module"})

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELLS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_BETWEEN = frozenset({"PUSH_NULL", "PRECALL", "CACHE", "EXTENDED_ARG", "NOP", "RESUME", "COPY_FREE_VARS"})


@dataclass(frozen=True)
class Reached:
    """Something a function names: `settings.RATE` as it is written, the value there, and by which names the world
    knows it. `unloaded`: a module that only the function itself imports. Not `found`: an attribute of an object."""

    dotted: str
    value: Any = None
    known_as: tuple[str, ...] = ()
    unloaded: str | None = None
    found: bool = True


def asked(each: Reached) -> str | None:
    """What it asks that may be answered otherwise next time; None if nothing is known of that kind."""
    for name in each.known_as:
        if name in _CLOCK:
            return f"asks the clock ({name})"
        if name in _DICE or (name.startswith(_DICE_OF) and name not in _SEEDED):
            return f"draws at random ({name})"
        if name in _OUTSIDE or name.startswith(_OUTSIDE_OF):
            return f"reads what is outside while it runs ({name})"
        if name in _ANYTHING:
            return f"runs code that is not written in it ({name})"
        if name.startswith("."):
            return f"reads what is outside while it runs ({name})"
    return None


def reached(function: FunctionType) -> Iterator[Reached]:
    """Every global, closed-over name and import of a function, with the attributes it takes of modules and classes, in
    the order of its code; of the functions inside it too. Locals are not among them."""
    cells = dict(_cells(function))
    for code in _codes(function.__code__):
        scan = _Scan(function.__globals__, cells)
        yield from scan.all(code)


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


@dataclass
class _Scan:
    """One pass over one code object: chains of names as they are loaded."""

    names: Mapping[str, Any]
    cells: Mapping[str, Any]
    imported: dict[str, str] = field(default_factory=dict)
    chain: list[str] = field(default_factory=list)
    base: Any = None
    module: str | None = None

    def all(self, code: CodeType) -> Iterator[Reached]:
        importing: str | None = None
        for step in dis.get_instructions(code):
            name = step.opname
            if name in _BETWEEN:
                continue
            if name in _ATTRIBUTES and self.chain:
                self.chain.append(str(step.argval))
                continue
            yield from self._ended()
            if name in _ATTRIBUTES and step.argval in _READING:
                yield Reached(f".{step.argval}", None, (f".{step.argval}",), found=False)
            elif name == "IMPORT_NAME":
                importing = str(step.argval)
                yield from self._import(importing)
            elif name == "IMPORT_FROM" and importing is not None:
                yield from self._import(importing, str(step.argval))
            elif name in ("STORE_FAST", "STORE_DEREF", "STORE_NAME") and importing is not None:
                self.imported[str(step.argval)] = importing
                importing = None
            else:
                self._begin(step)
        yield from self._ended()

    def _begin(self, step: dis.Instruction) -> None:
        name = step.argval
        if step.opname in _GLOBALS:
            if name in self.names:
                self.chain, self.base = [name], self.names[name]
            elif hasattr(builtins, str(name)):
                self.chain, self.base = [f"builtins.{name}"], getattr(builtins, str(name))
            else:
                self.chain, self.base = [], None
        elif step.opname in _CELLS and name in self.cells:
            self.chain, self.base = [name], self.cells[name]
        elif step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and name in self.imported:
            self.chain, self.module = [name], self.imported[name]

    def _import(self, module: str, attribute: str | None = None) -> Iterator[Reached]:
        loaded = sys.modules.get(module)
        dotted = f"{module}.{attribute}" if attribute else module
        if loaded is None:
            yield Reached(dotted, None, (dotted,), unloaded=module)
        elif attribute is not None:
            yield _followed(dotted, loaded, [attribute])

    def _ended(self) -> Iterator[Reached]:
        chain, base, module = self.chain, self.base, self.module
        self.chain, self.base, self.module = [], None, None
        if not chain:
            return
        dotted = ".".join(chain)
        if module is not None:  # imported by the function itself
            base = sys.modules.get(module)
            if base is None:
                named = ".".join([module, *chain[1:]])
                yield Reached(dotted, None, (named,), unloaded=module)
                return
        yield _followed(dotted, base, chain[1:])


def _followed(dotted: str, base: Any, attributes: list[str]) -> Reached:
    """Along the attributes of modules and classes to a value; an object is taken whole."""
    value, left = base, list(attributes)
    known = [_own_name(value)]
    while left and isinstance(value, ModuleType):
        if not hasattr(value, left[0]):
            break
        known.append(f"{value.__name__}.{'.'.join(left)}")
        value = getattr(value, left.pop(0))
        known.append(_own_name(value))
    if left and isinstance(value, type):
        known += [f"{owner.__module__}.{owner.__qualname__}.{left[0]}" for owner in value.__mro__]
    elif left and _own_name(value):
        known.append(f"{_own_name(value)}.{left[0]}")
    names = tuple(dict.fromkeys(name for name in known if name))
    return Reached(dotted, value, names)


def _own_name(value: Any) -> str:
    """By which name the world knows a function or a class; the methods of `random` belong to a hidden generator."""
    owner = getattr(value, "__self__", None)
    if type(owner).__module__ == "random" and not isinstance(owner, type):
        return f"random.{getattr(value, '__name__', '')}"
    if isinstance(value, ModuleType):
        return value.__name__
    if type(value).__module__ == "os" and type(value).__name__ == "_Environ":
        return "os.environ"
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    return f"{module}.{name}" if isinstance(name, str) and isinstance(module, str) else ""
