"""What `twice doctor` checks: each reports what it found, and what to do where that is not enough."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from twice.engine.session import jars
from twice.engine.session.java import find_java
from twice.errors import TwiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_PYTHON = (3, 10)
OLDEST_SPARK = 4
FREE_GB = 2
_ZONES = ("America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Auckland", "America/Sao_Paulo", "Africa/Cairo")
_YEARS = range(2015, 2031)


@dataclass(frozen=True)
class Check:
    """`fix` is empty where all is well."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


Probe = Callable[["SparkSession", Path], Check]
"""A further check on a running session, with a folder to write to."""


def checks(
    cache: Path | None = None, probes: Mapping[str, Probe] | None = None, internal: bool = True
) -> tuple[Check, ...]:
    """Every check, in the order in which they depend on each other. Starts (and ends) a session of its own,
    unless one is running; nothing outside a temporary folder and the user's cache is written. `internal`: whether
    Delta's own classes are to be used."""
    cache = cache or jars.cache_folder()
    first = (
        _python(),
        _guarded("java", _java),
        _guarded("pyspark", lambda: _pyspark(internal)),
        _guarded("jars", lambda: _jars(cache)),
        _disk(cache),
    )
    if not all(check.ok for check in first if check.name != "disk"):
        return (*first, Check("spark", False, "not tried", "Fix the problems above first."))
    return (*first, _guarded("archive", lambda: _archive(cache)), *_session_checks(cache, probes or {}, internal))


def _python() -> Check:
    found = f"Python {platform.python_version()} ({sys.executable})"
    ok = sys.version_info >= OLDEST_PYTHON
    return Check("python", ok, found, "" if ok else "Use Python 3.10 or newer.")


def _java() -> Check:
    java = find_java()
    return Check("java", True, f"Java {java.version} ({java.program})")


def _pyspark(internal: bool) -> Check:
    """Another version of Spark 4 is no reason to stop where rows are written by Delta's public calls."""
    try:
        import pyspark
    except ImportError:
        return Check("pyspark", False, "not installed", 'Run: pip install "twice[spark]".')
    from twice.engine.session.session import TESTED_SPARK

    found, install = pyspark.__version__, 'Run: pip install "pyspark>=4.1.4,<4.2"'
    if found.startswith(f"{TESTED_SPARK}."):
        return Check("pyspark", True, found)
    if int(found.split(".")[0]) < OLDEST_SPARK:
        return Check("pyspark", False, found, f"{install}.")
    detail = f"{found}, tested is {TESTED_SPARK}"
    if not internal:
        return Check("pyspark", True, f"{detail}: internal = false is set")
    public = "set internal = false in twice.toml to write by Delta's public calls"
    return Check("pyspark", False, detail, f"{install}, or {public}.")


def _jars(cache: Path) -> Check:
    found = jars.ready(cache)
    return Check("jars", True, f"{len(found)} jars with the right sha256 in {found[0].parent}")


def _archive(cache: Path) -> Check:
    from twice.engine.session.session import archive_for

    archive = archive_for(find_java(), jars.ready(cache), cache)
    if archive.made:
        return Check("archive", True, f"{archive.path} ({archive.path.stat().st_size >> 20} MB)")
    # Only slower, so not a failure.
    return Check("archive", True, "none yet: starts are slower; python -m twice.engine.train_archive makes it")


def _disk(cache: Path) -> Check:
    places = {Path(tempfile.gettempdir()), next(p for p in (cache, *cache.parents) if p.exists()), Path.cwd()}
    free = {place: shutil.disk_usage(place).free for place in places}
    place, least = min(free.items(), key=lambda item: item[1])
    ok = least >= FREE_GB << 30
    return Check("disk", ok, f"{least / (1 << 30):.1f} GB free at {place}", "" if ok else "Free some space there.")


def _session_checks(cache: Path, probes: Mapping[str, Probe], internal: bool) -> Iterator[Check]:
    with tempfile.TemporaryDirectory(prefix="twice-doctor-") as folder:
        try:
            with _session(Path(folder), cache) as session:
                yield Check("spark", True, f"Spark {session.version}, {session.sparkContext.master}")
                yield _guarded("delta", lambda: _delta(session, str(Path(folder) / "table"), internal))
                yield _guarded("zones", lambda: _zones(session))
                for name, probe in probes.items():
                    yield _guarded(name, partial(probe, session, Path(folder) / name))
        except TwiceError as error:
            yield Check("spark", False, error.what, error.fix)


@contextmanager
def _session(folder: Path, cache: Path) -> Iterator[SparkSession]:
    from twice.engine.session.session import SessionSettings, close, embedded, existing, run_session

    running = existing()
    if running is not None:
        yield run_session(running)
        return
    spark = embedded(SessionSettings(folder, folder / "warehouse", short_jobs=True, cache=cache, archive="use"))
    try:
        yield run_session(spark)
    finally:
        close(spark)


def _delta(session: SparkSession, table: str, internal: bool) -> Check:
    """Create, replace one day, read back: the least that every run does."""
    rows = session.range(4).selectExpr("id", "date_add(DATE '2026-01-01', cast(id % 2 AS int)) AS day")
    rows.write.format("delta").partitionBy("day").save(table)
    one = rows.where("day = DATE '2026-01-01' AND id = 0")
    one.write.format("delta").mode("overwrite").option("replaceWhere", "day = DATE '2026-01-01'").save(table)
    left = sorted(row.id for row in session.read.format("delta").load(table).collect())
    if left != [0, 1, 3]:
        return Check("delta", False, f"read back {left}, not [0, 1, 3]")
    from twice.engine.session.session import TESTED_DELTA, delta_version, is_tested

    found = delta_version(session)
    if not is_tested(session.version, found):
        detail = f"Delta {found}, tested is {TESTED_DELTA}"
        if not internal:
            return Check("delta", True, f"{detail}: internal = false is set")
        return Check("delta", False, detail, "Set internal = false in twice.toml.")
    return Check("delta", True, f"Delta {found}: write, replace and read work")


def _zones(session: SparkSession) -> Check:
    """Slices are cut by Python's time zones and derived by the JVM's: days must begin at the same instants."""
    starts = [datetime(year, 1, 1, tzinfo=timezone.utc) + timedelta(days=day) for year in _YEARS for day in range(366)]
    differing = [zone for zone in _ZONES if _ours(zone, starts) != _theirs(session, zone, starts)]
    if not differing:
        return Check("zones", True, f"Python and Java agree on {len(_ZONES)} time zones")
    return Check(
        "zones",
        False,
        f"Python and Java disagree on {', '.join(differing)}",
        "Update both: pip install -U tzdata, and a current Java.",
    )


def _ours(zone: str, instants: list[datetime]) -> list[int]:
    offsets = (instant.astimezone(ZoneInfo(zone)).utcoffset() or timedelta(0) for instant in instants)
    return [int(offset.total_seconds()) for offset in offsets]


def _theirs(session: SparkSession, zone: str, instants: list[datetime]) -> list[int]:
    # One call for all: one by one this would be 35,000 calls into the JVM.
    seconds = ",".join(str(int(instant.timestamp())) for instant in instants)
    row = session.sql(
        f"SELECT transform(cast(split('{seconds}', ',') AS array<bigint>), s -> "
        f"unix_seconds(from_utc_timestamp(timestamp_seconds(s), '{zone}')) - s) AS offsets"
    ).first()
    return [] if row is None else [int(offset) for offset in row.offsets]


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except TwiceError as error:
        return Check(name, False, error.what, error.fix)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a machine belongs in the report
        return Check(name, False, f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
