"""What a plain PySpark job does to tables, seen from inside this process: its reads can be disturbed, its writes are
recorded in order, and it can be made to die before any of them.

PySpark's own methods are exchanged while the job runs, and put back afterwards. Files and requests are seen by Python's
audit events, of all threads: the job may start its own. What leaves the process is not stopped here but by `hook`.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from twice.core.failure.failpoints import Crash
from twice.core.ports import Suspicion
from twice.engine.guard.guard import likely
from twice.proof.jobs.sandbox import placeholder_receiver
from twice.proof.jobs.write import Write
from twice.proof.reads import READERS, DisturbedReads, passed

_SAVES = ("save", "saveAsTable", "insertInto", "parquet", "json", "csv", "orc", "text", "jdbc")
_SAVES_V2 = ("append", "overwrite", "overwritePartitions", "create", "createOrReplace", "replace")
_VIEWS = ("createOrReplaceTempView", "createTempView", "createOrReplaceGlobalTempView", "createGlobalTempView")
_WRITING_SQL = re.compile(r"\s*(INSERT|MERGE|UPDATE|DELETE|TRUNCATE|CREATE|REPLACE|DROP|ALTER|COPY)\b", re.IGNORECASE)
_SETTINGS = ("mode", "partitionBy", "option", "options")
_KEY = re.compile(rb"^idempotency-key:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_WRITES = re.compile(r"[wax+]")
_O_WRITES = 0o3  # O_WRONLY | O_RDWR

Listener = Callable[[str, tuple[Any, ...]], None]
"""Gets every audit event. What it raises is raised there."""
_LISTENERS: list[Listener] = []


@dataclass
class Recorder:
    """`sandbox`: files written elsewhere are not the job's tables. `dies_before`: the number of a write, from 1."""

    sandbox: Path
    inputs: Callable[[DataFrame], DataFrame] | None = None
    dies_before: int | None = None
    writes: list[Write] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    views: dict[str, tuple[Suspicion, ...]] = field(default_factory=dict)
    reads: int = 0
    passed: set[str] = field(default_factory=set)
    busy: bool = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        exchanged = [*self._writers(), *self._readers(), *self._others()]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in exchanged]
        for owner, name, made in exchanged:
            setattr(owner, name, functools.wraps(getattr(owner, name))(made))
        try:
            with _listening(self._event), placeholder_receiver():
                yield
        finally:
            for owner, name, original in before:
                setattr(owner, name, original)

    def record(self, write: Write) -> None:
        self.writes.append(write)
        if self.dies_before == len(self.writes):
            raise Crash(str(write))

    @property
    def reached(self) -> DisturbedReads:
        """Which of the job's reads were disturbed, of those whose rows it wrote."""
        return DisturbedReads(self.reads, tuple(sorted(self.passed)))

    def _writers(self) -> Iterator[tuple[type, str, Callable[..., Any]]]:
        for name in _SETTINGS:
            yield DataFrameWriter, name, _remembering(getattr(DataFrameWriter, name), name)
        for name in _SAVES:
            yield DataFrameWriter, name, self._saving(getattr(DataFrameWriter, name), name)
        for name in _SAVES_V2:
            yield DataFrameWriterV2, name, self._saving_v2(getattr(DataFrameWriterV2, name), name)

    def _readers(self) -> Iterator[tuple[type, str, Callable[..., Any]]]:
        for owner, name in READERS:
            yield owner, name, self._reading(getattr(owner, name))

    def _others(self) -> Iterator[tuple[type, str, Callable[..., Any]]]:
        yield SparkSession, "sql", self._asking(SparkSession.sql)
        yield ClassicFrame, "writeTo", _naming(ClassicFrame.writeTo)
        for name in _VIEWS:
            yield ClassicFrame, name, self._viewing(getattr(ClassicFrame, name))

    def _saving(self, original: Callable[..., Any], method: str) -> Callable[..., Any]:
        def save(writer: Any, *args: Any, **named: Any) -> Any:
            if not self.busy:  # PySpark's own methods call each other
                self.record(_write_of(writer, method, args, named))
                self.passed.update(passed(writer._df) if self.inputs else ())
            with self._quiet():
                return original(writer, *args, **named)

        return save

    def _saving_v2(self, original: Callable[..., Any], method: str) -> Callable[..., Any]:
        def save(writer: Any, *args: Any, **named: Any) -> Any:
            verb = "append" if method == "append" else "overwrite"
            selective = method in ("overwrite", "overwritePartitions")
            self.record(
                Write(verb, str(writer.__dict__.get("_twice", "")), selective=selective, likely=likely(writer._df))
            )
            self.passed.update(passed(writer._df) if self.inputs else ())
            with self._quiet():
                return original(writer, *args, **named)

        return save

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(reader: Any, *args: Any, **named: Any) -> Any:
            with self._quiet():
                frame = original(reader, *args, **named)
            if self.busy or self.inputs is None:
                return frame
            self.reads += 1
            return self.inputs(frame)

        return read

    def _asking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def sql(session: Any, statement: str, *args: Any, **named: Any) -> Any:
            found = _WRITING_SQL.match(statement) if not self.busy else None
            if found and not re.match(r"\s*CREATE\s+(OR\s+REPLACE\s+)?(GLOBAL\s+)?TEMP", statement, re.IGNORECASE):
                used = (v for name, seen in self.views.items() if re.search(rf"\b{name}\b", statement) for v in seen)
                self.record(Write(found[1].upper(), _named_in(statement), statement, likely=tuple(used)))
            with self._quiet():
                return original(session, statement, *args, **named)

        return sql

    def _viewing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def view(frame: Any, name: str) -> Any:
            self.views[name] = likely(frame)
            return original(frame, name)

        return view

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def _event(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and not self.busy:
            self._opened(*args[:3])
        elif event == "http.client.send":
            self._sent(args[0], args[1])

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        writes = bool(_WRITES.search(mode)) if isinstance(mode, str) else bool(int(flags or 0) & _O_WRITES)
        if writes and isinstance(path, (str, os.PathLike)) and Path(path).is_relative_to(self.sandbox):
            self.record(Write("file", str(Path(path).relative_to(self.sandbox))))

    def _sent(self, connection: Any, data: Any) -> None:
        """A request to a receiver on this machine, which the placeholder answers; counted, with a key once per key."""
        head = bytes(data) if isinstance(data, (bytes, bytearray)) else b""
        if not re.match(rb"(POST|PUT|PATCH|DELETE) ", head):
            return
        key = _KEY.search(head)
        call = f"{head.split(b' HTTP')[0].decode()} at {connection.host}:{connection.port}"
        if key is not None:
            call = f"{call} key {key[1].decode()}"
            if call in self.calls:
                return
        self.record(Write("call", call))
        self.calls.append(call)


@contextmanager
def _listening(listener: Listener) -> Iterator[None]:
    _install_hook()
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


@functools.cache
def _install_hook() -> None:
    """Set at the first proof, for good: there is no way to remove an audit hook."""

    def notify(event: str, args: tuple[Any, ...]) -> None:
        for listener in _LISTENERS:
            listener(event, args)

    sys.addaudithook(notify)


def _naming(original: Callable[..., Any]) -> Callable[..., Any]:
    """`writeTo` forgets its table; its writer keeps it here."""

    def named(frame: Any, table: str) -> Any:
        writer = original(frame, table)
        writer.__dict__["_twice"] = table
        return writer

    return named


def _remembering(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The JVM keeps a writer's settings and gives them to nobody, so they are kept here, too."""

    def setting(writer: Any, *args: Any, **named: Any) -> Any:
        kept = writer.__dict__.setdefault("_twice", {"options": {}})
        if name in ("option", "options"):
            kept["options"] |= {str(args[0]).lower(): args[1]} if name == "option" else _lower(named)
        else:
            kept[name] = args
        return original(writer, *args, **named)

    return setting


def _write_of(writer: Any, method: str, args: tuple[Any, ...], named: dict[str, Any]) -> Write:
    kept = writer.__dict__.get("_twice", {"options": {}})
    mode = str(named.get("mode") or (kept.get("mode") or ("errorifexists",))[0] or "errorifexists")
    if method == "insertInto":
        mode = "overwrite" if named.get("overwrite") or (len(args) > 1 and args[1]) else "append"
    parts = _flat(named.get("partitionBy") or kept.get("partitionBy") or ())
    options = kept["options"] | _lower(named)
    selective = "replacewhere" in options or str(options.get("partitionoverwritemode")).lower() == "dynamic"
    dynamic = writer._df.sparkSession.conf.get("spark.sql.sources.partitionOverwriteMode", "static")
    target = str(args[0] if args else named.get("path") or named.get("name") or named.get("tableName") or "")
    return Write(
        mode,
        target,
        partitions=parts,
        selective=selective or str(dynamic).lower() == "dynamic",
        likely=likely(writer._df),
    )


def _lower(named: dict[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in named.items()}


def _named_in(statement: str) -> str:
    found = re.search(r"\b(?:INTO|TABLE|UPDATE|FROM)\s+(?:TABLE\s+)?(\S+)", statement, re.IGNORECASE)
    return found[1] if found else ""


def _flat(columns: Any) -> tuple[str, ...]:
    """`partitionBy("a", "b")` and `partitionBy(["a", "b"])` are the same."""
    return (columns,) if isinstance(columns, str) else tuple(name for each in columns for name in _flat(each))
