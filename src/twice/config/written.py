"""Settings as they are written: the keys, their types, their defaults, and the message for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from twice.errors import DeclarationError

PREFIX = "TWICE_"


def _listed(value: object) -> object:
    """A list, or one text with commas, as an environment variable gives it."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _plain(value: object) -> object:
    """Spark takes text only; TOML has numbers and booleans."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else value


_Listed = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class WrittenSpark(BaseModel):
    model_config = ConfigDict(extra="forbid")
    master: str = Field(default="local[*]", min_length=1, description="Spark's master.")
    memory: str | None = Field(
        default=None, pattern=r"^[1-9][0-9]*[kmgtKMGT]$", description="The driver's memory, such as `2g`."
    )
    short_jobs: bool = Field(default=False, description="Starts quickly, computes slowly: for tests and small days.")
    warm: str = Field(
        default=".twice/warm", description="Where `twice warm` leaves word of the Spark it keeps. Empty: none is used."
    )
    conf: dict[str, Annotated[str, BeforeValidator(_plain)]] = Field(
        default_factory=dict, description="Settings of Spark by name. May hold `${env:NAME}`."
    )


class WrittenEffects(BaseModel):
    model_config = ConfigDict(extra="forbid")
    send: bool = Field(default=True, description="`false`: effects wait in the outbox.")
    allow: _Listed = Field(
        default=(), description="Hosts and networks beyond public https: `hooks.internal`, `10.1.0.0/16`."
    )
    slack_token: str | None = Field(default=None, description="The token of your Slack app, as `${env:NAME}`.")
    slack_url: str | None = Field(default=None, description="Another address than Slack's own, for tests.")
    smtp: str | None = Field(
        default=None, description="The mail server: `smtp://user:${env:NAME}@host:587` (STARTTLS) or `smtps://…:465`."
    )
    smtp_from: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+$", description="The sender of e-mails.")
    certificates: str | None = Field(
        default=None, description="A file with a further certificate authority, for receivers of your own."
    )


class WrittenConnection(BaseModel):
    model_config = ConfigDict(extra="forbid")
    url: str = Field(min_length=1, description="The server and the database. Usually `${env:NAME}`.")
    lock_seconds: int = Field(default=60, ge=0, description="How long to wait for a lock. 0: without end.")
    statement_seconds: int = Field(default=3600, ge=0, description="How long one statement may take. 0: without end.")
    idle_seconds: int = Field(
        default=600, ge=0, description="After this the server ends a transaction that is idle. 0: never."
    )
    driver_connections: int = Field(default=4, ge=1, description="Connections of one process at once.")
    task_connections: int = Field(default=8, ge=1, description="Connections of Spark's tasks at once.")


class Written(BaseModel):
    model_config = ConfigDict(extra="forbid")
    project: str = Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="The project's name. Part of every token: changing it forgets what was published.",
    )
    pipelines: _Listed = Field(
        default=("pipelines",), min_length=1, description="Folders whose Python files declare tasks."
    )
    warehouse: str = Field(
        default="warehouse", min_length=1, description="The folder of the Delta tables: a path that this machine sees."
    )
    ledger: str = Field(
        default=".twice/ledger.db",
        min_length=1,
        description="A SQLite file, or `postgresql://user:${env:NAME}@host/db`.",
    )
    environment: str | None = Field(
        default=None,
        pattern=r"^\S(.{0,198}\S)?$",
        description="The name of this environment in a shared ledger. Left out: where the tables are.",
    )
    format: str = Field(
        default="delta", pattern=r"^[a-z][a-z0-9_]*$", description="The table system of names without one."
    )
    lease_seconds: int = Field(
        default=300, gt=0, description="How long a slice stays claimed after its process stopped reporting."
    )
    internal: bool = Field(
        default=True, description="`false`: rows are written and committed by Delta's public calls alone."
    )
    roots: _Listed = Field(
        default=(), description="Folders outside of the project that declared files and params may be read from."
    )
    spark: WrittenSpark = WrittenSpark()
    effects: WrittenEffects = WrittenEffects()
    connections: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], WrittenConnection] = Field(
        default_factory=dict
    )


_FIXES = {
    "project": 'Name it with letters, digits, - and _: project = "myshop".',
    "warehouse": 'Name a folder: warehouse = "warehouse".',
    "ledger": 'Name a file or a database URL: ledger = ".twice/ledger.db".',
    "environment": 'Name it in a word or two: environment = "prod".',
    "lease_seconds": "Give whole seconds: lease_seconds = 300.",
    "internal": "Say true or false: internal = false.",
    "spark.master": 'Name a master: master = "local[*]".',
    "spark.short_jobs": "Say true or false: short_jobs = true.",
    "spark.warm": 'Name a folder, or nothing: warm = ".twice/warm".',
    "spark.memory": 'Give a number and a unit: memory = "2g".',
    "spark.conf": 'Give names and texts: conf = { "spark.sql.shuffle.partitions" = "8" }.',
    "effects.send": "Say true or false: send = true.",
    "effects.allow": 'Give hosts or networks: allow = ["hooks.internal", "10.1.0.0/16"].',
    "effects.smtp_from": 'Give one address: smtp_from = "pipelines@example.com".',
    "format": 'Name a table system: format = "delta".',
    "pipelines": 'Give the folders: pipelines = ["pipelines"].',
    "connections": 'Name it in lower case, with a URL: [connections.postgres] url = "${env:SHOP_URL}".',
    "roots": 'Give folders: roots = ["/data/landing"].',
}


def check_names(values: Mapping[str, Any], origin: str) -> None:
    """DeclarationError for a key that is none, with the nearest one that is."""
    tables: list[tuple[str, Mapping[str, Any], type[BaseModel]]] = [("", values, Written)]
    nested: dict[str, type[BaseModel]] = {"spark": WrittenSpark, "effects": WrittenEffects}
    for key, inner_model in nested.items():
        inner = values.get(key, {})
        if not isinstance(inner, dict):
            raise DeclarationError(f"{key} must be a table", where=origin_of(key, origin), fix=f"Write [{key}].")
        tables.append((f"{key}.", inner, inner_model))
    connections = values.get("connections", {})
    for name, table in connections.items() if isinstance(connections, dict) else ():
        if isinstance(table, dict):
            tables.append((f"connections.{name}.", table, WrittenConnection))
    for prefix, table, model in tables:
        for name in table:
            if name not in model.model_fields:
                close = difflib.get_close_matches(name, model.model_fields, 1, 0.5)
                known = ", ".join(f"{prefix}{known}" for known in model.model_fields)
                raise DeclarationError(
                    f"unknown setting {prefix + name!r}",
                    where=origin_of(prefix + name, origin),
                    fix=f"Did you mean {prefix}{close[0]}?" if close else f"Known: {known}.",
                )


def origin_of(name: str, origin: str) -> str:
    """Where a key of this layer was written: a file, its profile, or one variable of the environment."""
    if origin != "environment":
        return origin
    # A key of spark.conf comes with the one variable that holds them all.
    return f"environment {PREFIX}{'_'.join(name.split('.')[:2]).upper()}"


def invalid(error: ValidationError, origins: Mapping[str, str], file: Path) -> DeclarationError:
    """The first thing that is wrong, by key and place. Values are not repeated: they may be secrets."""
    first = error.errors(include_input=False, include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return DeclarationError(f"the setting {name} is missing", where=str(file), fix=_FIXES.get(name, ""))
    # A place in a list or table belongs to the key that holds it.
    parts = name.split(".")
    keys = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return DeclarationError(
        f"{name} is wrong: {first['msg'][0].lower()}{first['msg'][1:]}",
        where=next((origins[key] for key in keys if key in origins), str(file)),
        fix=next((_FIXES[key] for key in keys if key in _FIXES), ""),
    )
