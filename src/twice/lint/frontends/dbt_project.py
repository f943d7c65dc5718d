"""What a dbt project declares about a model outside the model: dbt_project.yml, property files, compiled SQL."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

_LARGEST = 500_000
_MOST_FILES = 40


@dataclass(frozen=True)
class Surroundings:
    """The configuration a model inherits; `adapter` is "" when no profiles.yml names it."""

    config: dict[str, Any] = field(default_factory=dict)
    unique_columns: frozenset[str] = frozenset()
    adapter: str = ""
    compiled: Path | None = None
    problem: str = ""


def surroundings(file: Path) -> Surroundings:
    """Everything found around the model; a file without a project has empty surroundings."""
    root = _root(file)
    if root is None:
        return Surroundings()
    settings, problem = _yaml(root / "dbt_project.yml")
    name = str(settings.get("name", ""))
    below, kind = _place(file, root, settings)
    config = _inherited(settings.get(kind), (name, *below.parts[:-1], file.stem))
    unique: set[str] = set()
    for properties in _property_files(file, root):
        model = _described(_yaml(properties)[0].get(kind), file.stem)
        config |= _plain(model.get("config"))
        unique |= _unique_columns(model)
    return Surroundings(config, frozenset(unique), _adapter(root), _compiled(file, root, name), problem)


def fingerprint(file: Path) -> str:
    """Changes when anything changes that `surroundings` would read. "" outside a project."""
    root = _root(file)
    if root is None:
        return ""
    settings = _yaml(root / "dbt_project.yml")[0]
    compiled = _compiled(file, root, str(settings.get("name", "")))
    around = [
        root / "dbt_project.yml",
        root / "profiles.yml",
        *_property_files(file, root),
        *([compiled] if compiled else []),
    ]
    digest = hashlib.sha256()
    for path in around:
        digest.update(repr((str(path), _stamp(path))).encode())
    return digest.hexdigest()[:16]


def _root(file: Path) -> Path | None:
    return next((folder for folder in list(file.parents)[:8] if (folder / "dbt_project.yml").is_file()), None)


def _place(file: Path, root: Path, settings: dict[str, Any]) -> tuple[Path, str]:
    """The file's path below its model or snapshot folder, and which of the two it is."""
    for kind, key, default in (("models", "model-paths", "models"), ("snapshots", "snapshot-paths", "snapshots")):
        folders = settings.get(key) or settings.get("source-paths") or [default]
        for folder in folders if isinstance(folders, list) else [default]:
            if file.is_relative_to(root / str(folder)):
                return file.relative_to(root / str(folder)), kind
    return file.relative_to(root), "models"


def _inherited(table: Any, steps: tuple[str, ...]) -> dict[str, Any]:
    """The values of dbt_project.yml on the way down to the model; the nearest wins."""
    config = _plain(table)
    for step in steps:
        table = table.get(step) if isinstance(table, dict) else None
        config |= _plain(table)
    return config


def _plain(table: Any) -> dict[str, Any]:
    """The settings in a table. A name with + is one; without it, a nested table is a folder."""
    if not isinstance(table, dict):
        return {}
    return {
        str(key).lstrip("+"): value
        for key, value in table.items()
        if str(key).startswith("+") or not isinstance(value, dict)
    }


def _property_files(file: Path, root: Path) -> list[Path]:
    found: list[Path] = []
    for folder in (file.parent, *file.parent.parents):
        if folder == root or not folder.is_relative_to(root):
            break
        found += sorted(path for path in folder.iterdir() if path.suffix in (".yml", ".yaml"))
    return found[:_MOST_FILES]


def _described(models: Any, name: str) -> dict[str, Any]:
    for model in models if isinstance(models, list) else []:
        if isinstance(model, dict) and model.get("name") == name:
            return model
    return {}


def _unique_columns(model: dict[str, Any]) -> set[str]:
    found = set()
    columns = model.get("columns")
    for column in columns if isinstance(columns, list) else []:
        if not isinstance(column, dict):
            continue
        tests = column.get("data_tests") or column.get("tests") or []
        if any(test == "unique" or (isinstance(test, dict) and "unique" in test) for test in tests):
            found.add(str(column.get("name", "")).lower())
    return found


def _adapter(root: Path) -> str:
    for profile in _yaml(root / "profiles.yml")[0].values():
        outputs = profile.get("outputs") if isinstance(profile, dict) else None
        for output in outputs.values() if isinstance(outputs, dict) else ():
            if isinstance(output, dict) and isinstance(output.get("type"), str):
                return str(output["type"])
    return ""


def _compiled(file: Path, root: Path, name: str) -> Path | None:
    """The model as dbt compiled it, unless the model has changed since."""
    path = root / "target" / "compiled" / name / file.relative_to(root)
    fresh = path.is_file() and path.stat().st_mtime >= file.stat().st_mtime
    return path if fresh and path.stat().st_size < _LARGEST else None


def _yaml(path: Path) -> tuple[dict[str, Any], str]:
    """The file's table, and why there is none."""
    stamp = _stamp(path)
    return _parsed(path, stamp) if stamp and stamp[1] < _LARGEST else ({}, "")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


# All models of a folder share its files; the stamp makes a changed file a new entry.
@lru_cache(maxsize=256)
def _parsed(path: Path, _stamp: tuple[int, int]) -> tuple[dict[str, Any], str]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read: {str(error).splitlines()[0]}"
    return (data if isinstance(data, dict) else {}), ""
