"""`[tool.twice.lint]` and the command line's options, as one value."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from twice.errors import DeclarationError
from twice.lint.finding import RANK, Severity

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class LintSettings:
    select: tuple[str, ...] = ("TW",)
    """Prefixes of codes to run: TW, TW3, TW301."""
    ignore: tuple[str, ...] = ()
    preview: bool = False
    min_severity: Severity = "info"
    exclude: tuple[str, ...] = ()
    """Path patterns (fnmatch) that are not read."""
    dialect: str = ""
    """sqlglot's name of the SQL dialect; guessed per file when empty."""
    sinks: tuple[str, ...] = ()
    """Own functions that append rows: ``warehouse.write_rows``."""
    upsert_targets: tuple[str, ...] = ()
    """Tables or stores (fnmatch) where a second write of a key replaces the first."""
    effect_calls: tuple[str, ...] = ()
    """Own functions that send something to the outside: ``alerts.page``."""
    dynamic_overwrite: bool = False
    """The cluster sets spark.sql.sources.partitionOverwriteMode=dynamic, where no code shows it."""
    cache: bool = True
    jobs: int = 0
    """Processes; 0 takes one per core."""


def from_pyproject(start: Path) -> LintSettings:
    """The settings of the nearest pyproject.toml or twice.toml at or above `start`; else the defaults."""
    start = start.resolve()
    for folder in (start, *start.parents):
        for name, keys in (("pyproject.toml", ("tool", "twice", "lint")), ("twice.toml", ("lint",))):
            table = _table(folder / name, keys)
            if table is not None:
                return from_table(table, str(folder / name))
    return LintSettings()


def from_table(table: Mapping[str, Any], where: str = "[tool.twice.lint]") -> LintSettings:
    """Checked settings; a wrong name or type is a DeclarationError that names it."""
    known = {part.name: part for part in fields(LintSettings)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in known:
            raise DeclarationError(
                f"unknown lint setting {key!r}",
                where=where,
                fix=f"Known settings: {', '.join(sorted(known))}.",
            )
        values[name] = _checked(name, value, getattr(LintSettings(), name), where)
    return replace(LintSettings(), **values)


def _checked(name: str, value: Any, default: Any, where: str) -> Any:
    if isinstance(default, tuple):
        if isinstance(value, str):
            value = [value]
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise DeclarationError(f"{name} must be a list of strings", where=where)
    if type(value) is not type(default):
        raise DeclarationError(f"{name} must be {type(default).__name__}", where=where)
    if name == "min_severity" and value not in RANK:
        raise DeclarationError(f"min_severity must be one of {', '.join(RANK)}", where=where)
    return value


def _table(path: Path, keys: tuple[str, ...]) -> Mapping[str, Any] | None:
    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"cannot be read as TOML: {error}", where=str(path)) from error
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
        if data is None:
            return None
    return data if isinstance(data, dict) else None
