"""A project's settings: twice.toml (or `[tool.twice]`), then a profile, then `TWICE_…` of the environment.

    project = "myshop"                       # fixed: it is part of every token
    pipelines = ["pipelines"]
    warehouse = "warehouse"
    environment = "dev"                      # keeps runs and effects apart in a shared ledger
    ledger = ".twice/ledger.db"              # or postgresql+psycopg://team:${env:LEDGER_PASSWORD}@host/ledger
    format = "delta"
    roots = ["/data/landing"]                # other folders that read.files(…) may read
    lease_seconds = 300
    internal = true                          # false: rows by Delta's public calls alone

    [spark]
    master = "local[*]"
    memory = "2g"
    short_jobs = false
    warm = ".twice/warm"                     # where `twice warm` leaves word of the Spark it keeps
    conf = { "spark.sql.shuffle.partitions" = "8" }

    [effects]
    send = true
    allow = ["hooks.internal"]               # beyond public https
    slack_token = "${env:SLACK_TOKEN}"
    smtp = "smtp://twice:${env:SMTP_PASSWORD}@mail.example.com:587"
    smtp_from = "pipelines@example.com"

    [connections.postgres]                   # postgres:schema.table; others by their names
    url = "${env:SHOP_URL}"

    [profiles.prod]                          # chosen by --profile or TWICE_PROFILE
    ledger = "${env:LEDGER_URL}"

`TWICE_LEDGER`, `TWICE_SPARK_MASTER` and so on override one key each. Paths are relative to the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import quote, unquote

from pydantic import ValidationError

from twice.config.secret import Secret
from twice.config.sources import Origins, find, merged
from twice.config.written import PREFIX, Written, WrittenEffects, WrittenSpark, invalid
from twice.core.names.local_path import local_path
from twice.core.names.reference import REFERENCE, hide_passwords
from twice.errors import DeclarationError

__all__ = ["EffectSettings", "Explained", "Secret", "Settings", "SparkSettings", "explain", "load"]


@dataclass(frozen=True)
class SparkSettings:
    """`conf` values may be secrets: they are revealed only where the session is made."""

    master: str
    memory: str | None
    short_jobs: bool
    conf: Mapping[str, Secret]
    warm: Path | None = None

    def revealed(self) -> dict[str, str]:
        """`conf` with its secrets: hand it to the session and to nothing else."""
        return {name: value.reveal() for name, value in self.conf.items()}


@dataclass(frozen=True)
class EffectSettings:
    """How effects go out. The secrets stay references: a sender reveals them while it sends."""

    send: bool
    allow: tuple[str, ...]
    slack_token: str | None
    slack_url: str | None
    smtp: str | None
    smtp_from: str | None
    certificates: Path | None


@dataclass(frozen=True)
class ConnectionSettings:
    """A PostgreSQL server that tables are read from and written to. Seconds of 0 are without end."""

    url: Secret
    lock_seconds: int
    statement_seconds: int
    idle_seconds: int
    driver_connections: int
    task_connections: int


@dataclass(frozen=True)
class Settings:
    """Settings as they are used: every path absolute, every secret hidden until it is needed."""

    project: str
    pipelines: tuple[Path, ...]
    warehouse: Path
    ledger: Secret
    environment: str | None
    format: str
    lease_seconds: int
    internal: bool
    spark: SparkSettings
    effects: EffectSettings
    connections: Mapping[str, ConnectionSettings]
    root: Path
    file: Path
    roots: tuple[Path, ...] = ()
    profile: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def ledger_url(self) -> str:
        """With its secrets: hand it to the ledger and to nothing else."""
        return _url(self.ledger.reveal(), self.root)

    @property
    def warehouse_name(self) -> str:
        """The environment of the warehouse's tables, unless it is given a name: the folder, relative to the project
        where the ledger lies in the project too, so that both move together and their history with them."""
        folder, root = Path(os.path.realpath(self.warehouse)), Path(os.path.realpath(self.root))
        inside = folder.is_relative_to(root) and self._ledger_is_inside(root)
        return f"./{folder.relative_to(root).as_posix()}" if inside else str(folder)

    def _ledger_is_inside(self, root: Path) -> bool:
        scheme, _, rest = self.ledger_url.partition(":///")
        file = unquote(rest.partition("?")[0])
        return scheme.startswith("sqlite") and Path(os.path.realpath(file)).is_relative_to(root)


@dataclass(frozen=True)
class Explained:
    """One setting for people: secrets hidden. `origin` names the file, the profile or the variable it is from."""

    name: str
    value: str
    origin: str


def load(start: Path, profile: str | None = None) -> Settings:
    """The settings of the project that `start` lies in. Without `profile`, TWICE_PROFILE chooses one."""
    file, table = find(start)
    from_environment = os.environ.get(f"{PREFIX}PROFILE") or None
    profile = profile or from_environment
    values, origins = merged(file, table, profile)
    if profile is not None:
        origins["profile"] = f"environment {PREFIX}PROFILE" if profile == from_environment else "asked for"
    try:
        written = Written(**values)
    except ValidationError as error:
        raise invalid(error, origins, file) from error
    return _settings(written, file, profile, origins)


def explain(settings: Settings) -> tuple[Explained, ...]:
    """Every setting with its value and where it came from, for `config show`."""
    spark, effects = settings.spark, settings.effects
    values = {
        "project": settings.project,
        "profile": settings.profile or "",
        "pipelines": ", ".join(str(folder) for folder in settings.pipelines),
        "warehouse": str(settings.warehouse),
        "ledger": settings.ledger.shown(),
        "environment": settings.environment or _warehouse_name(settings),
        "format": settings.format,
        "roots": ", ".join(str(folder) for folder in settings.roots),
        "lease_seconds": str(settings.lease_seconds),
        "internal": str(settings.internal).lower(),
        "spark.master": hide_passwords(spark.master),
        "spark.memory": spark.memory or "",
        "spark.short_jobs": str(spark.short_jobs).lower(),
        "spark.warm": str(spark.warm or ""),
        "effects.send": str(effects.send).lower(),
        "effects.allow": ", ".join(effects.allow),
        "effects.slack_token": Secret(effects.slack_token or "").shown("slack_token"),
        "effects.slack_url": hide_passwords(effects.slack_url or ""),
        "effects.smtp": hide_passwords(effects.smtp or ""),
        "effects.smtp_from": effects.smtp_from or "",
        "effects.certificates": str(effects.certificates or ""),
    }
    values |= {f"spark.conf.{name}": value.shown(name) for name, value in sorted(spark.conf.items())}
    for name, connection in sorted(settings.connections.items()):
        values |= {
            f"connections.{name}.{field.name}": value.shown() if isinstance(value, Secret) else str(value)
            for field in fields(connection)
            for value in [getattr(connection, field.name)]
        }
    return tuple(Explained(name, value, settings.origins.get(name, "default")) for name, value in values.items())


def _warehouse_name(settings: Settings) -> str:
    """While a variable that names the ledger is not set, the ledger is taken to lie elsewhere."""
    try:
        return settings.warehouse_name
    except DeclarationError:
        return os.path.realpath(settings.warehouse)


def _settings(written: Written, file: Path, profile: str | None, origins: Mapping[str, str]) -> Settings:
    root, origin = file.parent, Origins(file, origins)
    settings = Settings(
        project=written.project,
        pipelines=tuple(origin.path("pipelines", folder) for folder in written.pipelines),
        warehouse=origin.path("warehouse", written.warehouse),
        ledger=origin.secret("ledger", written.ledger),
        environment=written.environment and origin.secret("environment", written.environment).reveal(),
        format=written.format,
        lease_seconds=written.lease_seconds,
        internal=written.internal,
        spark=_spark(written.spark, origin),
        effects=_effects(written.effects, origin),
        connections={
            name: ConnectionSettings(**{**each.model_dump(), "url": origin.secret(f"connections.{name}.url", each.url)})
            for name, each in written.connections.items()
        },
        root=root,
        file=file,
        roots=tuple(origin.path("roots", folder) for folder in written.roots),
        profile=profile,
        origins=origins,
    )
    for folder in settings.pipelines:
        if not folder.is_relative_to(root) or folder == root:
            raise DeclarationError(
                f"pipelines: {folder} is not a folder inside the project",
                where=origin.of("pipelines"),
                fix='Name one below the file: pipelines = ["pipelines"].',
            )
    return settings


def _spark(written: WrittenSpark, origin: Origins) -> SparkSettings:
    conf = {name: origin.secret(f"spark.conf.{name}", value) for name, value in written.conf.items()}
    warm = origin.path("spark.warm", written.warm) if written.warm else None
    return SparkSettings(written.master, written.memory, written.short_jobs, conf, warm)


def _effects(written: WrittenEffects, origin: Origins) -> EffectSettings:
    for name, text in (("slack_token", written.slack_token), ("smtp", written.smtp), ("slack_url", written.slack_url)):
        if text is not None and (
            hide_passwords(text) != text or (name == "slack_token" and not REFERENCE.search(text))
        ):
            raise DeclarationError(
                f"effects.{name} holds a secret",
                fix="Write ${env:NAME} in its place, and set that variable.",
            )
    return EffectSettings(
        written.send,
        written.allow,
        written.slack_token,
        written.slack_url,
        written.smtp,
        written.smtp_from,
        origin.path("effects.certificates", written.certificates) if written.certificates else None,
    )


_LIBPQ = re.compile(r"(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=")


def _url(text: str, root: Path) -> str:
    """A path, or an SQLite URL with a relative one, means a file of the project; other URLs stay as they are."""
    text = text.strip()
    if _LIBPQ.match(text):
        raise DeclarationError(
            "ledger is written as libpq writes connections; as a path it would be a file of that name",
            fix="Write postgresql://user:${env:PASSWORD}@host:5432/database.",
        )
    if "://" not in text or text.lower().startswith("file:"):
        path = os.path.normpath(root / Path(local_path(text, "ledger")).expanduser())
        return "sqlite:///" + quote(path, safe="/ :@!$&'()*+,;=~")
    sqlite = re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^?]+)(.*)", text)
    if sqlite is None:
        return text
    return sqlite[1] + os.path.normpath(root / sqlite[2]) + sqlite[3]
