"""Where settings are found: the project's file, one of its profiles, the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twice.config.secret import Secret
from twice.config.written import PREFIX, Written, check_names, origin_of
from twice.core.names.local_path import local_path
from twice.errors import DeclarationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "twice.toml"

_ELSEWHERE = ("lint", "profiles")
"""Tables of the file that are not settings: lint reads its own, profiles are merged in."""


@dataclass(frozen=True)
class Origins:
    """Where each setting was written, else the project's file: an error names it, and relative paths begin there."""

    file: Path
    known: Mapping[str, str]

    def of(self, name: str) -> str:
        return self.known.get(name, str(self.file))

    def secret(self, name: str, text: str) -> Secret:
        return Secret(text, f"{self.of(name)}: {name}")

    def path(self, name: str, text: str) -> Path:
        local = local_path(self.secret(name, text).reveal(), name, self.of(name))
        return Path(os.path.normpath(self.file.parent / Path(local).expanduser()))


def find(start: Path) -> tuple[Path, dict[str, Any]]:
    found = _find(start.absolute())
    if found is None:
        raise DeclarationError(
            f"there is no {FILE} at or above {start.absolute()}",
            fix="Go to a project's folder, or make a project: twice init myshop.",
        )
    return found


def is_project(start: Path) -> bool:
    """Whether a folder is in a project, though its file may be wrong."""
    try:
        return _find(start.absolute()) is not None
    except DeclarationError:
        return True


def _find(start: Path) -> tuple[Path, dict[str, Any]] | None:
    for folder in (start, *start.parents):
        own = _read(folder / FILE)
        shared = _read(folder / "pyproject.toml")
        ours = _table(_table(shared or {}, "tool", folder), "twice", folder)
        # A pyproject with settings of lint alone is no project.
        ours = {} if set(ours) <= {"lint"} else ours
        if own is not None and ours:
            raise DeclarationError(
                f"both {FILE} and [tool.twice] in pyproject.toml configure this project",
                where=str(folder),
                fix="Keep one of them.",
            )
        if own is not None:
            return folder / FILE, own
        if ours:
            return folder / "pyproject.toml", ours
    return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return found
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"cannot be read as TOML: {error}", where=str(path), fix="Correct it.") from error


def _table(table: Mapping[str, Any], name: str, folder: Path) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise DeclarationError(f"{name} must be a table", where=str(folder), fix=f"Write [{name}].")
    return found


def merged(file: Path, table: dict[str, Any], profile: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of all layers, and where each setting was written."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer, origin in _layers(file, table, profile):
        check_names(layer, origin)
        _merge(values, layer)
        origins |= {name: origin_of(name, origin) for name in _flat(layer)}
    return values, origins


def _layers(file: Path, table: dict[str, Any], profile: str | None) -> Iterator[tuple[dict[str, Any], str]]:
    """Each layer's values and its name; a later layer overrides an earlier one, key by key."""
    yield {name: value for name, value in table.items() if name not in _ELSEWHERE}, str(file)
    if profile is not None:
        profiles = _table(table, "profiles", file)
        if profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise DeclarationError(
                f"there is no profile {profile!r}", where=str(file), fix=f"Known: {known}. Add [profiles.{profile}]."
            )
        chosen = _table(profiles, profile, file)
        _refuse_other_project(chosen, f"{file} [profiles.{profile}]")
        yield chosen, f"{file} [profiles.{profile}]"
    yield _environment(table), "environment"


def _environment(table: Mapping[str, Any]) -> dict[str, Any]:
    if not _names_a_setting(os.environ):
        return {}
    from twice.config.variables import read

    values = read()
    if values.get("project") == table.get("project"):
        values.pop("project", None)
    _refuse_other_project(values, f"environment {PREFIX}PROJECT")
    return values


def _names_a_setting(variables: Mapping[str, str]) -> bool:
    """Seldom true, and what reads them is slow to import. Letters may be of either case, as pydantic takes them."""
    keys = tuple(f"{PREFIX}{name.upper()}" for name in Written.model_fields)
    return any(value and name.upper().startswith(keys) for name, value in variables.items())


def _refuse_other_project(values: Mapping[str, Any], where: str) -> None:
    if "project" in values:
        raise DeclarationError(
            "the project's name is fixed: it is part of every token, and another one would publish everything again",
            where=where,
            fix=f"Take it out; the name stands at the top of {FILE}.",
        )


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            into[name] = dict(into[name])
            _merge(into[name], value)
        else:
            into[name] = value


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
