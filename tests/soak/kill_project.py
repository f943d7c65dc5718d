"""The project of kills.py: every strategy on Delta, fed from one growing source, and what its tables must hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

BY_DAY = ("daily", "merged", "inserted", "raw")
RESTATED = ("daily", "merged")
INCREMENTAL = ("feed", "log")
WHOLE = ("everything",)
KEYED = ("merged", "inserted", "feed")

FIRST_DAY = date(2026, 1, 1)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS_A_DAY = 400

Row = tuple[int, date, datetime, int]
"""id, day, seen, amount"""

_TOML = 'project = "kills"\nlease_seconds = 2\n[spark]\nshort_jobs = true\n'
_PIPELINE = """
from twice import Daily, Since, Whole, append_once, audit, insert_new, merge, read, replace, task

DAY = Daily("day", start="2026-01-01")
SEEN = Since("seen", initial="2026-01-01T00:00:00Z")
ROWS = {"rows": read("shop.source", by="day")}
NEW = {"rows": read("shop.source", by="seen")}


@task("shop.daily", scope=DAY, inputs=ROWS, write=replace(), audits=[audit.unique("id", "day", "amount")])
def daily(rows):
    return rows


@task("shop.merged", scope=DAY, inputs=ROWS, write=merge("id", newest_by="seen"))
def merged(rows):
    return rows


@task("shop.inserted", scope=DAY, inputs=ROWS, write=insert_new(["id", "seen"]))
def inserted(rows):
    return rows


@task("shop.raw", scope=DAY, inputs=ROWS, write=append_once())
def raw(rows):
    return rows


@task("shop.feed", scope=SEEN, inputs=NEW, write=merge("id", newest_by="seen"))
def feed(rows):
    return rows


@task("shop.log", scope=SEEN, inputs=NEW, write=append_once())
def log(rows):
    return rows


@task("shop.everything", scope=Whole(), inputs={"rows": read("shop.source")}, write=replace())
def everything(rows):
    return rows
"""


def write_project(root: Path) -> None:
    (root / "pipelines").mkdir(parents=True)
    (root / "twice.toml").write_text(_TOML)
    (root / "pipelines" / "all.py").write_text(_PIPELINE)
    _ties_file(root).touch()


def rows_of(at: int, ties: bool = True) -> list[Row]:
    """The rows of one day: its own ids, and a few that every day has and that grow newer. `ties`: one id twice, equally
    new; and one that the next day has too, no newer."""
    day, seen = FIRST_DAY + timedelta(days=at), START + timedelta(minutes=at)
    shared = [(id_, day, seen, 1000 * at + id_) for id_ in range(1, 6)]
    own = shared + [(10_000 * (at + 1) + n, day, seen, n) for n in range(ROWS_A_DAY)]
    if not ties:
        return own
    own += [(_tied(at), day, seen, 1), (_tied(at), day, seen, 2), (_tied_next(at), day, seen, 1)]
    before = seen - timedelta(minutes=1)
    return own + ([(_tied_next(at - 1), day, before, 2)] if at else [])


def _tied(at: int) -> int:
    return 10_000 * (at + 1) + 1_000


def _tied_next(at: int) -> int:
    return 10_000 * (at + 1) + 2_000


def arrive(spark: Any, root: Path, days: Sequence[int]) -> None:
    """The source gets these days whole, before any job reads them: what was appended once stays as it was."""
    rows = [row for at in days for row in rows_of(at, has_ties(root))]
    frame = spark.createDataFrame(rows, "id bigint, day date, seen timestamp, amount bigint").coalesce(1)
    frame.write.format("delta").mode("append").partitionBy("day").save(str(table(root, "source")))
    _open_file(root).write_text(json.dumps([(FIRST_DAY + timedelta(days=at)).isoformat() for at in days]))


def open_days(root: Path) -> list[str]:
    found: list[str] = json.loads(_open_file(root).read_text())
    return found


def table(root: Path, name: str) -> Path:
    return root / "warehouse" / "shop" / name


def wrong_tables(spark: Any, root: Path, days: int) -> list[str]:
    """What a table holds too much or too little of, after everything of these days was run."""
    source = [row for at in range(days) for row in rows_of(at, has_ties(root))]
    return wrong_rows(source, {name: _held(spark, root, name) for name in (*BY_DAY, *INCREMENTAL, *WHOLE)})


def wrong_rows(source: Sequence[Row], tables: Mapping[str, Counter[Row]]) -> list[str]:
    """What these tables hold too much or too little of. Which of two equally new rows wins is the target's to say, but
    of one batch it says the same in every table; between batches a restated one wins, and what was inserted stays."""
    mark = max(row[2] for row in source)
    preferred = {row[0]: row for row in tables["feed"]}
    found = []
    for name, held in tables.items():
        right = Counter(source)
        if name == "log":
            right = Counter(row for row in source if row[2] < mark)
        elif name in KEYED:
            right = Counter(_chosen(source, name, held, preferred))
        if held != right:
            found.append(f"{name}: {_first(held - right)} too much, {_first(right - held)} missing")
    return found


def _chosen(source: Sequence[Row], name: str, held: Counter[Row], preferred: Mapping[int, Row]) -> Iterator[Row]:
    """One row of each key, among the newest: the one that `feed` has too, if they came in one batch; else the one that
    is there."""
    rows: dict[tuple[object, ...], list[Row]] = {}
    for row in source:
        rows.setdefault((row[0], row[2]) if name == "inserted" else (row[0],), []).append(row)
    for candidates in rows.values():
        newest = max(row[2] for row in candidates)
        among = [row for row in candidates if row[2] == newest]
        one_batch = len({row[1] for row in among}) == 1
        here = [row for row in among if (preferred.get(row[0]) == row if one_batch else row in held)]
        yield here[0] if here else among[0]


def _held(spark: Any, root: Path, name: str) -> Counter[Row]:
    frame = spark.read.format("delta").load(str(table(root, name)))
    rows = frame.selectExpr("id", "day", "unix_micros(seen)", "amount").collect()
    return Counter((row[0], row[1], START + timedelta(microseconds=row[2] - _START_MICROS), row[3]) for row in rows)


def _first(rows: Counter[Row]) -> str:
    return f"{sum(rows.values())} rows ({next(iter(rows), None)})"


_START_MICROS = int(START.timestamp()) * 1_000_000


def has_ties(root: Path) -> bool:
    """A project that an older soak has made goes on without them."""
    return _ties_file(root).exists()


def _ties_file(root: Path) -> Path:
    return root / "with_ties"


def _open_file(root: Path) -> Path:
    return root.parent / "open_days.json"
