"""The value of a param, read once for a run, and the leaf that it counts by. A value is never part of a message."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twice.core.closed import assert_never
from twice.core.param import Param, picked, value_hash
from twice.core.ports import PARAM, Leaf
from twice.errors import DeclarationError, InputMissing
from twice.runtime.inputs.places import Places

_SECRET = "secret"
"""The identity of every secret: nothing that follows from it is written down."""


@dataclass(frozen=True)
class ParamValue:
    """`value` is what the function gets; each call has a copy of its own."""

    leaf: Leaf
    held: Any = field(repr=False)

    @property
    def value(self) -> Any:
        return copy.deepcopy(self.held)


def load_param(places: Places, name: str, param: Param) -> ParamValue:
    """Raises InputMissing where the file, its key or the variable is not there, or cannot be read."""
    value = _value(places, name, param)
    if param.secret:
        return ParamValue(Leaf(PARAM, f"{name} ({param.origin}), a secret", _SECRET), value)
    try:
        identity = value_hash(value)
    except DeclarationError as error:
        error.at(f"param {name} ({param.origin})")
        raise
    return ParamValue(Leaf(PARAM, f"{name} ({param.origin})", identity), value)


def _value(places: Places, name: str, param: Param) -> Any:
    match param.kind:
        case "value":
            return param.value
        case "env":
            found = places.environment.get(param.place, param.default)
            if found is None:
                raise InputMissing(
                    f"the param {name} is not given: the environment has no variable {param.place}",
                    fix=f"Set it, or declare what holds without it: param.env({param.place!r}, default=…).",
                )
            return found
        case "json":
            return _from_file(places, name, param, json.loads)
        case "yaml":
            return _from_file(places, name, param, _parse_yaml)
        case _:
            assert_never(param.kind)


def _parse_yaml(text: str) -> Any:
    import yaml  # most projects have no such file

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _from_file(places: Places, name: str, param: Param, parse: Callable[[str], Any]) -> Any:
    place = places.full(param.place)
    places.refuse_outside(place, f"the param {name}")
    try:
        return picked(parse(Path(place).read_text(encoding="utf-8")), param.key)
    except OSError as error:
        raise InputMissing(
            f"the param {name} cannot be read from {param.place}: {error.strerror}",
            fix="Its path begins in the project's folder.",
        ) from error
    except KeyError as error:
        raise InputMissing(f"the param {name}: {param.place} has no key {param.key}", fix="Correct key=.") from error
    except ValueError as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InputMissing(
            f"the param {name}: {param.place} is no {param.kind.upper()}{where}", fix="Correct the file."
        ) from (None if param.secret else error)
