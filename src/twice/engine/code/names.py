"""Which names a Python function uses, and by which names others know their values. Its code is read, never run."""

from __future__ import annotations

import builtins
import dis
import random
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELLS = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_STORES = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"})
_BETWEEN = frozenset({"PUSH_NULL", "PRECALL", "CACHE", "EXTENDED_ARG", "NOP", "RESUME", "COPY_FREE_VARS"})
_IN_IMPORT = frozenset({"IMPORT_FROM", "SWAP", "ROT_TWO", "POP_TOP", *_STORES})
_TWO_IN_ONE = re.compile(r"((?:LOAD|STORE)_FAST(?:_BORROW)?)_((?:LOAD|STORE)_FAST(?:_BORROW)?)")
"""From 3.13 on, one instruction may do two things with two names."""
_HIDDEN = getattr(random, "_inst", object())
"""The generator behind the functions of `random`."""


@dataclass(frozen=True)
class UsedName:
    """Something a function names: `settings.RATE` as it is written, the value there, and by which names others
    know it. `unloaded`: a module that only the function itself imports. `whole`: the value itself is taken, not an
    attribute of it. `given`: it comes before something that can be its first argument, which is not None.
    `of_object`: it is a method of a value, which counts by its content."""

    dotted: str
    value: Any = None
    known_as: tuple[str, ...] = ()
    unloaded: str | None = None
    whole: bool = True
    given: bool = False
    of_object: bool = False


@dataclass(frozen=True)
class UsedNames:
    """All that one function names, in the order of its code; the attributes and texts in it, whatever they are of."""

    reached: tuple[UsedName, ...]
    attributes: frozenset[str]
    texts: frozenset[str]


def used_names(function: FunctionType) -> UsedNames:
    """Every global, closed-over name and import of a function, with the attributes it takes of modules and classes; of
    the functions inside it too. Its locals are not among them, but for those that an import has bound."""
    scan = _Scan(function.__globals__, dict(_cells(function)))
    codes = list(codes_of(function.__code__))
    reached = tuple(each for code in codes for each in scan.all(list(_steps(code))))
    texts = frozenset(each for code in codes for each in code.co_consts if isinstance(each, str))
    return UsedNames(reached, frozenset(scan.attributes), texts)


def names_of(value: Any) -> tuple[str, ...]:
    """By which names others know a function, a class or a module; for a method, those of every class it may come
    from. The functions of `random` are methods of a hidden generator."""
    if isinstance(value, ModuleType):
        return (value.__name__,)
    if type(value).__module__ == "os" and type(value).__name__ == "_Environ":
        return ("os.environ",)
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    owner = getattr(value, "__self__", None)
    if owner is _HIDDEN:
        return (f"random.{value.__name__}",)
    if owner is not None and not isinstance(owner, ModuleType) and isinstance(name, str):
        return _of_classes(owner if isinstance(owner, type) else type(owner), str(value.__name__))
    return (f"{module}.{name}",) if isinstance(name, str) and isinstance(module, str) else ()


def is_of_object(value: Any) -> bool:
    """Whether a function is a method of a value, rather than of a class or a module."""
    owner = getattr(value, "__self__", None)
    return owner is not None and owner is not _HIDDEN and not isinstance(owner, ModuleType | type)


def _of_classes(kind: type, attribute: str) -> tuple[str, ...]:
    return tuple(f"{each.__module__}.{each.__qualname__}.{attribute}" for each in kind.__mro__)


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_of(each)


@dataclass(frozen=True)
class _Instruction:
    does: str
    what: Any


def _steps(code: CodeType) -> Iterator[_Instruction]:
    for each in dis.get_instructions(code):
        two = _TWO_IN_ONE.fullmatch(each.opname)
        if two is not None and isinstance(each.argval, tuple):
            yield from (_Instruction(does, what) for does, what in zip(two.groups(), each.argval, strict=True))
        elif each.opname not in _BETWEEN:
            yield _Instruction(each.opname, each.argval)


@dataclass(frozen=True)
class _Import:
    """What an import binds: a module, and the attributes taken of it."""

    module: str
    attributes: tuple[str, ...] = ()


@dataclass
class _Scan:
    """One pass over the code of one function and of those inside it: chains of names as they are loaded."""

    names: Mapping[str, Any]
    cells: Mapping[str, Any]
    imported: dict[str, _Import] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)
    chain: list[str] = field(default_factory=list)
    base: Any = None
    source: _Import | None = None

    def all(self, steps: list[_Instruction]) -> Iterator[UsedName]:
        importing: _Import | None = None
        binds: _Import | None = None
        taken: Any = None
        for at, step in enumerate(steps):
            if step.does in _ATTRIBUTES:
                self.attributes.add(str(step.what))
                if self.chain:
                    self.chain.append(str(step.what))
                    continue
            yield from self._ended(step)
            if step.does == "IMPORT_NAME":
                level, taken = steps[at - 2].what, steps[at - 1].what
                importing = _Import(self._absolute(str(step.what), level))
                binds = _Import(importing.module.partition(".")[0])  # import a.b binds a
                yield from self._loading(importing)
            elif importing is not None and step.does == "IMPORT_FROM":
                binds = _Import(importing.module, (str(step.what),)) if taken else importing  # or import a.b as c
                yield from self._found(binds, binds.module, step) if taken else ()
            elif binds is not None and step.does in _STORES:
                self.imported[str(step.what)] = binds
            elif step.does not in _IN_IMPORT:
                importing = binds = None
                self._begin(step)
        yield from self._ended(None)

    def _begin(self, step: _Instruction) -> None:
        name = step.what
        if step.does.startswith("LOAD_") and isinstance(name, str) and name in self.imported:
            self.chain, self.source = [name], self.imported[name]
        elif step.does in _GLOBALS:
            if name in self.names:
                self.chain, self.base = [name], self.names[name]
            elif hasattr(builtins, str(name)):
                self.chain, self.base = [f"builtins.{name}"], getattr(builtins, str(name))
        elif step.does in _CELLS and name in self.cells:
            self.chain, self.base = [name], self.cells[name]

    def _absolute(self, module: str, level: int) -> str:
        """`from .rates import …`: from which package, as Python itself would find it."""
        if not level:
            return module
        package = self.names.get("__package__")
        if package is None:
            own = str(self.names.get("__name__", ""))
            package = own if "__path__" in self.names else own.rpartition(".")[0]
        parts = str(package).split(".") if package else []
        above = parts[: len(parts) - level + 1]
        return ".".join([*above, *filter(None, [module])]) if len(above) > 0 else "." * level + module

    def _loading(self, what: _Import) -> Iterator[UsedName]:
        if what.module not in sys.modules:  # what is taken of it has a name of its own, which is checked
            yield UsedName(what.module, None, (), unloaded=what.module)

    def _ended(self, then: _Instruction | None) -> Iterator[UsedName]:
        chain, base, source = self.chain, self.base, self.source
        self.chain, self.base, self.source = [], None, None
        if not chain:
            return
        dotted = ".".join(chain)
        if source is None:
            yield _followed(dotted, base, chain[1:], then)
        else:
            yield from self._found(_Import(source.module, (*source.attributes, *chain[1:])), dotted, then)

    def _found(self, what: _Import, dotted: str, then: _Instruction | None) -> Iterator[UsedName]:
        module, attributes = what.module, list(what.attributes)
        base = sys.modules.get(module)
        if base is None:
            yield UsedName(dotted, None, (".".join([module, *attributes]),), unloaded=module, given=_given(then))
            return
        inner = f"{module}.{attributes[0]}" if attributes else ""
        if attributes and not hasattr(base, attributes[0]) and inner in sys.modules:
            base, attributes = sys.modules[inner], attributes[1:]
        elif attributes and not hasattr(base, attributes[0]):  # from package import module: nobody has loaded it
            yield UsedName(dotted, None, (".".join([module, *attributes]),), unloaded=inner)
            return
        yield _followed(dotted, base, attributes, then)


def _followed(dotted: str, base: Any, attributes: Iterable[str], then: _Instruction | None) -> UsedName:
    """Along the attributes of modules to a value; an object or a class is taken whole."""
    value, left = base, list(attributes)
    path = ""
    while left and isinstance(value, ModuleType) and hasattr(value, left[0]):
        path = f"{value.__name__}.{left[0]}"
        value = getattr(value, left.pop(0))
    known = [path, *names_of(value)]
    of_object = is_of_object(value)
    if left:
        known = [f"{each}.{left[0]}" for each in known if each]
        of_object = not isinstance(value, ModuleType | FunctionType | BuiltinFunctionType | type)
        known += _of_classes(value if isinstance(value, type) else type(value), left[0])
    names = tuple(dict.fromkeys(filter(None, known)))
    return UsedName(dotted, value, names, whole=not left, given=_given(then), of_object=of_object)


def _given(then: _Instruction | None) -> bool:
    return then is not None and then.does.startswith("LOAD_") and then.what is not None
