"""A param: a Python value that a task is given like an input, and that counts like one. Pure: who reads files and the
environment is the runtime's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal

from twice.core.names.local_path import local_path
from twice.errors import DeclarationError

ParamKind = Literal["value", "json", "yaml", "env"]
"""Where a param's value comes from: the declaration, a file, or a variable of the environment."""

_BY_TEXT = (date, datetime, time, timedelta, Decimal)


@dataclass(frozen=True)
class Param:
    """`place`: the file or the variable. `key`: which part of the file, `"rates.eu"`. A `secret` is neither shown nor
    recorded, not even as a hash."""

    kind: ParamKind
    place: str = ""
    key: str | None = None
    default: str | None = field(default=None, repr=False)
    secret: bool = False
    value: Any = field(default=None, repr=False)

    @property
    def origin(self) -> str:
        """For people: where its value comes from."""
        if self.kind == "value":
            return "in its declaration"
        if self.kind == "env":
            return f"environment {self.place}"
        return f"{self.place}, {self.key}" if self.key else self.place


class Params:
    """Declare a Python value as an input of a task. Its function gets the value under the input's name.

    `param(value)` is a value of the code that declares it, such as a constant of a settings module; `param.json`,
    `param.yaml` and `param.env` read it when the task is run. The value counts like any input: slices that were
    published with another one are stale, and the reason names the param. Its hash is recorded, never the value itself.
    With `secret=True` not even the hash is: a changed secret makes no slice stale by itself.
    """

    def __call__(self, value: Any, *, secret: bool = False) -> Param:
        """A value at hand: numbers, texts, dates, and lists and dicts of them."""
        value_hash(value)  # refused where it is written
        return Param("value", value=value, secret=secret)

    def json(self, path: str, *, key: str | None = None, secret: bool = False) -> Param:
        """What a JSON file holds, or the part of it that `key` names: `param.json("config/fx.json", key="rates.eu")`.
        The path is relative to the project's folder."""
        return Param("json", _checked_path(path, "param.json"), key, secret=secret)

    def yaml(self, path: str, *, key: str | None = None, secret: bool = False) -> Param:
        """What a YAML file holds, or the part of it that `key` names. The path is relative to the project's folder."""
        return Param("yaml", _checked_path(path, "param.yaml"), key, secret=secret)

    def env(self, name: str, *, default: str | None = None, secret: bool = False) -> Param:
        """A variable of the environment, as text. Without `default` a run fails where it is not set."""
        if not name or "=" in name:
            raise DeclarationError(f"param.env({name!r}) names no variable", fix='Write param.env("REGION").')
        return Param("env", name, default=default, secret=secret)


param = Params()


def picked(value: Any, key: str | None) -> Any:
    """The part of a value that `rates.eu` names. Raises KeyError where there is none."""
    for word in key.split(".") if key else ():
        if not isinstance(value, Mapping) or word not in value:
            raise KeyError(word)
        value = value[word]
    return value


def value_hash(value: Any) -> str:
    """The same for equal values of equal types, in every process. The order of a dict does not count."""
    return hashlib.sha256(f"param 1\n{json.dumps(_canonical(value))}".encode()).hexdigest()[:32]


def _canonical(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return [type(value).__name__, repr(value)]
    if isinstance(value, _BY_TEXT):
        return [type(value).__name__, str(value)]
    if isinstance(value, Mapping):
        pairs = [[_canonical(name), _canonical(each)] for name, each in value.items()]
        return ["dict", sorted(pairs, key=repr)]
    if isinstance(value, list | tuple):
        return ["list", [_canonical(each) for each in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted((_canonical(each) for each in value), key=repr)]
    raise DeclarationError(
        f"a param holds a {type(value).__name__}, and only plain values can be compared with those of another run",
        fix="Give numbers, texts, dates, and lists and dicts of them; make anything else of it in the function.",
    )


def _checked_path(path: str, what: str) -> str:
    found = local_path(path, f"{what}({path!r})")
    if not found or ".." in found.split("/"):
        raise DeclarationError(
            f"{what}({path!r}) names no file of the project", fix="Give its path from the project's folder on."
        )
    return found
