"""What the front-ends find in code, in one small vocabulary that every rule reads.

A fact is plain data: it can be pickled to another process and stored in the cache. Positions are 1-based,
as editors show them. Names of tables and paths are lower case and keep holes as ``{name}`` where the code
puts in a value that is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal[
    "append",  # rows added through an API: Spark, pandas, BigQuery, a file opened with "a"
    "insert",  # INSERT INTO
    "overwrite",  # a whole table, path or partition replaced by API or INSERT OVERWRITE
    "merge",  # MERGE, upsert, ON CONFLICT DO UPDATE, REPLACE INTO
    "update",
    "delete",
    "truncate",
    "drop",
    "create",  # CREATE TABLE; with the guard "fresh" when it replaces what was there
    "copy",  # COPY, LOAD DATA
]
ClockUse = Literal[
    "filter",  # decides which rows are read, written or deleted
    "path",  # part of a path, file or table name
    "window",  # requests a period from an API or another system
    "key_column",  # stored in a column that identifies, orders, partitions or versions rows
    "audit_column",  # stored in a column that only notes when the row was written
    "default",  # a run date that becomes "now" when nobody gives one
    "dag",  # an argument of a DAG or an operator
    "column_default",  # DDL: DEFAULT now()
]
IdKind = Literal["random", "engine_row", "sequence", "sample", "hash"]
OrderKind = Literal["row_number", "aggregate", "limit", "survivor", "whole_row"]
OrderProblem = Literal["missing", "constant", "clock", "single"]
EffectKind = Literal["http", "chat", "email", "sms", "payment", "queue", "page"]
Guard = Literal[
    "conflict_clause",  # ON CONFLICT, INSERT IGNORE, MERGE
    "anti_join",  # NOT EXISTS, NOT IN, LEFT JOIN … IS NULL, left_anti against the target
    "delete_before",  # the same target is emptied (of the same scope) first
    "delete_atomic",  # … and in the same transaction
    "fresh",  # the target was created, replaced or dropped in the same unit
    "temporary",  # a temp table, a staging table that is emptied, a scratch path
    "run_path",  # the path or table names the run, its date or its id
    "upsert_store",  # the store overwrites by key: Cassandra, HBase, Elasticsearch with _id, Redis
    "partition_decorator",  # BigQuery table$20240101 with WRITE_TRUNCATE
    "dynamic_overwrite",
    "replace_where",
    "once_option",  # Delta txnAppId/txnVersion, BigQuery job id, insertId
    "first_chunk_replaces",
    "looked_first",  # the code checks whether the rows are already there
    "log",  # a log, audit or metrics record: one per run on purpose
    "constant_rows",  # a handful of literal rows (seeds, date dimensions)
]


@dataclass(frozen=True, order=True)
class TextSpan:
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True)
class Place:
    """Where something happens in the flow: the unit (function, script, operator) and its position there.

    `transaction` is equal for two places only if they commit together; "" means each commits alone,
    "?" that it is not known.
    """

    span: TextSpan
    unit: str = ""
    order: int = 0
    transaction: str = "?"
    within: frozenset[str] = frozenset()
    """Any of: loop, branch, except, foreach_batch, transform, callback, query (nothing is written),
    parameter (the mode is a caller's choice).
    """
    runs: TextSpan | None = None
    """Where a statement kept in a constant is given to the database, when that is another place."""

    @property
    def happens(self) -> TextSpan:
        return self.runs or self.span


@dataclass(frozen=True)
class ClockFact:
    place: Place
    call: str
    """As the reader wrote it: ``datetime.now()``."""
    use: ClockUse
    name: str = ""
    """The column, parameter or argument that receives it."""
    at_import: bool = False
    reaches: TextSpan | None = None
    """Where the value is used, when that is another place than the clock's call."""


@dataclass(frozen=True)
class IdFact:
    place: Place
    call: str
    kind: IdKind
    column: str = ""
    table: str = ""
    natural_key: bool = False
    """For a sequence: another unique key exists beside it."""


@dataclass(frozen=True)
class MergeShape:
    """What a merge does with its rows."""

    source: str
    source_unique: bool | None
    """None: the source cannot be seen from here."""
    updates: bool
    versioned: bool
    inserts: bool = True


@dataclass(frozen=True)
class WriteFact:
    place: Place
    verb: Verb
    engine: str
    """spark, pandas, bigquery, snowflake, sql, file, mongo, …"""
    target: str
    call: str
    guards: frozenset[Guard] = frozenset()
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    sliced: bool = False
    """The rows come from one slice of time (a filter or a run-date argument was seen)."""
    conditions: tuple[str, ...] = ()
    """The predicate of a delete, update or replaceWhere, normalised."""
    increments: tuple[str, ...] = ()
    """Columns an update computes from their own old value."""
    increment_at: TextSpan | None = None
    merge: MergeShape | None = None
    nothing_on_conflict: bool = False
    forced: bool = False
    reads: tuple[str, ...] = ()
    """The tables the written rows come from."""
    constant: str = ""
    """The name of the constant that holds the statement, for modules that import it."""
    kept_in: str = ""
    """The module that holds the statement, when that is not this file."""


@dataclass(frozen=True)
class RunFact:
    """A statement kept in another module is run here."""

    place: Place
    name: str


@dataclass(frozen=True)
class ReadFact:
    place: Place
    engine: str
    target: str
    latest: bool = False
    strict_mark: bool = False
    """Filtered with ``> max(column)`` of the table being loaded."""


@dataclass(frozen=True)
class TxnFact:
    place: Place
    kind: Literal["begin", "commit", "rollback", "autocommit"]


@dataclass(frozen=True)
class MarkFact:
    """A watermark, offset or last-run value is stored, or a consumer's offset is committed."""

    place: Place
    name: str
    kind: Literal["mark", "offset", "offset_first", "auto_offset"]


@dataclass(frozen=True)
class EffectFact:
    place: Place
    kind: EffectKind
    call: str
    keyed: bool = False


@dataclass(frozen=True)
class SwallowFact:
    """A handler of all errors around writes that neither raises nor leaves."""

    place: Place
    target: str


@dataclass(frozen=True)
class TaskFact:
    """A scheduler's view of some code: an Airflow DAG or task, a Celery task, a retry decorator."""

    span: TextSpan
    kind: Literal["dag", "task", "retry"]
    name: str
    units: tuple[str, ...] = ()
    """The functions it runs; empty means the whole file."""
    retries: int | None = None
    schedule: str = ""
    catchup: bool | None = None
    max_active_runs: int | None = None
    depends_on_past: bool = False
    files: tuple[str, ...] = ()
    """SQL files its operators name."""
    modules: tuple[str, ...] = ()
    """Modules its callables come from."""


@dataclass(frozen=True)
class OrderFact:
    place: Place
    kind: OrderKind
    call: str
    problem: OrderProblem
    columns: tuple[str, ...] = ()
    stored: bool = True
    """The result reaches a write, a key or a dedup; False when it is only looked at."""


@dataclass(frozen=True)
class ModelFact:
    """A dbt model and its configuration, however it was given (config(), properties, dbt_project.yml)."""

    span: TextSpan
    name: str
    materialized: str = "view"
    unique_key: tuple[str, ...] = ()
    strategy: str = ""
    """incremental_strategy: append, merge, delete+insert, insert_overwrite, microbatch; "" = not set."""
    adapter: str = ""
    incremental_filter: bool = False
    """There is an is_incremental() block."""
    filter_in_macro: bool = False
    anti_join: bool = False
    """The model leaves out rows that {{ this }} already has."""
    strict_mark: TextSpan | None = None
    """Where ``> (select max(…) from {{ this }})`` is."""
    unique_tested: bool = False
    engine_replaces: bool = False
    """The table's engine keeps one row of a key (ClickHouse's ReplacingMergeTree), however often it is inserted."""
