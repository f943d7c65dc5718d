"""Placeholders for dbt's names while a template is rendered: macros, relations, variables, the clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jinja2 import Undefined

from twice.lint.statements.mask import hole

_CLOCKS = frozenset({"now", "utcnow", "today", "current_timestamp", "current_date", "current_timestamp_in_utc"})
_FUNCTIONS = frozenset({"dateadd", "datediff", "date_trunc"})
_NAMESPACES = ("adapter", "api", "builtins", "dbt", "dbt_date", "dbt_utils", "exceptions", "graph", "log", "modules")
_HARMLESS = ("env_var", "load_result", "print", "return", "run_query", "set", "statement", "tojson", "zip")


_Base: Any = Undefined  # Undefined refuses every operation by its types too; a placeholder allows them.


class Placeholder(_Base):  # type: ignore[misc]
    """Can be called, iterated, compared and printed; it is true, and prints as a hole in the SQL."""

    def __init__(self, hint: Any = None, obj: Any = None, name: Any = None, **_: Any) -> None:
        super().__init__(hint, obj, name)
        self.path: tuple[str, ...] = (str(name or "value"),)

    def __str__(self) -> str:
        return hole("_".join(self.path[-2:])[:40])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._part(name)

    def __getitem__(self, key: Any) -> Any:
        return self._part(str(key))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if "caller" in options:
            return options["caller"]()
        name = self.path[-1]
        if name in _CLOCKS:
            return ClockPlaceholder()
        if name in _FUNCTIONS:
            return f"{name}({', '.join(str(argument) for argument in arguments)})"
        if name in ("generate_surrogate_key", "surrogate_key"):
            return f"md5({hole(name)})"
        return Placeholder(name=name)

    def _part(self, name: str) -> Any:
        part = Placeholder(name=name)
        part.path = (*self.path, name)
        return part

    def __iter__(self) -> Iterator[Any]:
        yield Placeholder(name=self.path[-1])

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __contains__(self, item: object) -> bool:
        return False

    def __int__(self) -> int:
        return 1

    __index__ = __int__

    def __float__(self) -> float:
        return 1.0

    def _same(self, *_: Any) -> Placeholder:
        return self

    def _never(self, _: Any) -> bool:
        return False

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _same
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _same
    __pos__ = __neg__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _never


class ClockPlaceholder(Placeholder):
    """A moment of the run, in whatever shape: it stays a clock when it is formatted or shifted."""

    TEXT = "current_timestamp"

    def __str__(self) -> str:
        return self.TEXT

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def _part(self, _: str) -> Any:
        return self


class RelationPlaceholder(Placeholder):
    """A table with a known name."""

    def __str__(self) -> str:
        return self.path[0]

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


class Config:
    """The model's ``config``: called to set values, read with ``get``. It prints nothing."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def __call__(self, *tables: Any, **options: Any) -> str:
        for table in tables:
            if isinstance(table, dict):
                self.values |= {str(key): value for key, value in table.items()}
        self.values |= options
        return ""

    def get(self, name: str, default: Any = None, **_: Any) -> Any:
        return self.values.get(name, Placeholder(name=name) if default is None else default)

    def require(self, name: str, **_: Any) -> Any:
        return self.get(name)


def placeholders(model: str, adapter: str, *, incremental: bool, config: Config) -> dict[str, Any]:
    """Everything dbt puts into a template's scope, as far as it decides what the SQL looks like."""

    def ref(*names: Any, **_: Any) -> RelationPlaceholder:
        return RelationPlaceholder(name=str(names[-1]) if names else "ref")

    def source(*names: Any, **_: Any) -> RelationPlaceholder:
        return RelationPlaceholder(name=".".join(str(name) for name in names) or "source")

    def var(name: Any = "var", default: Any = None, *_: Any) -> Any:
        return Placeholder(name=str(name)) if default is None else default

    known: dict[str, Any] = {name: Placeholder(name=name) for name in (*_NAMESPACES, *_HARMLESS)}
    return known | {
        "config": config,
        "current_timestamp": Placeholder(name="current_timestamp"),
        "env_var": var,
        "execute": True,
        "flags": {"FULL_REFRESH": not incremental, "WHICH": "run"},
        "is_incremental": lambda *_, **__: incremental,
        "ref": ref,
        "run_started_at": ClockPlaceholder(),
        "should_full_refresh": lambda *_, **__: not incremental,
        "source": source,
        # What is under "if the target is dev" is not what runs at night.
        "target": {"name": "prod", "type": adapter or "warehouse", "schema": "prod", "database": "prod"},
        "this": RelationPlaceholder(name=this(model)),
        "var": var,
    }


def this(model: str) -> str:
    """The name the model's own table has in the rendered text."""
    return f"this__{model}"
