"""What `twice doctor` checks: each reports what it found, and what to do where that is not enough."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
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
_INSTALL_SPARK = 'Run: pip install "pyspark>=4.1.4,<4.2"'
_NEEDED = frozenset({"python", "java", "pyspark", "jars"})
"""Without these no session can be started."""

_ZONES = ("America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Auckland", "America/Sao_Paulo", "Africa/Cairo")
_YEARS = range(2015, 2031)


@dataclass(frozen=True)
class Check:
    """`fix` is empty where nothing is wrong."""

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
    first = tuple(quick_checks(cache, internal))
    fetched = guarded("jars", lambda: _jars(cache))
    found = tuple(fetched if check.name == "jars" else check for check in first)
    return (*found, *deep_checks(found, cache, probes, internal))


def quick_checks(cache: Path | None = None, internal: bool = True) -> Iterator[Check]:
    """Those that start no JVM, fetch nothing and write nothing: together a second."""
    cache = cache or jars.cache_folder()
    needed = (
        _python(),
        guarded("java", _java),
        guarded("pyspark", lambda: _pyspark(internal)),
        guarded("jars", lambda: _jars_here(cache)),
    )
    yield from needed
    yield _disk(cache)
    if all(check.ok for check in needed):
        yield guarded("archive", lambda: _archive(cache))


def deep_checks(
    found: Iterable[Check], cache: Path | None = None, probes: Mapping[str, Probe] | None = None, internal: bool = True
) -> Iterator[Check]:
    """Those on a session that is started for them, unless the quick ones `found` that none could be."""
    if not all(check.ok for check in found if check.name in _NEEDED):
        yield Check("spark", False, "not tried", "Fix the problems above first.")
        return
    yield from _session_checks(cache or jars.cache_folder(), probes or {}, internal)


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
        return Check("pyspark", False, "not installed", f"{_INSTALL_SPARK}.")
    from twice.engine.session.session import TESTED_SPARK

    found, install = pyspark.__version__, _INSTALL_SPARK
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
    """Fetched, where they are missing."""
    jars.ready(cache)
    return _jars_here(cache)


def _jars_here(cache: Path) -> Check:
    """As they are in the cache, without fetching what is missing."""
    lock, folder = jars.locked(), cache / "jars"
    missing = [jar for jar in lock.jars if not (folder / jar.name).exists()]
    if missing:
        size = sum(jar.size for jar in missing) >> 20
        later = f"the first run fetches them ({len(missing)} jars, {size} MB), or python -m twice.engine.session.jars"
        return Check("jars", True, f"{_delta_of(lock)}, not in {folder} yet: {later}")
    for jar in lock.jars:
        jars.check(folder / jar.name, jar)
    return Check("jars", True, f"{_delta_of(lock)}: {len(lock.jars)} jars with the right sha256 in {folder}")


def _delta_of(lock: jars.Lock) -> str:
    return f"Delta {lock.packages[0].rpartition(':')[2]}"


def _archive(cache: Path) -> Check:
    if any(not (cache / "jars" / jar.name).exists() for jar in jars.locked().jars):
        return Check("archive", True, "none yet: it belongs to the jars")
    from twice.engine.session.spark_conf import archive_for

    archive = archive_for(find_java(), tuple(cache / "jars" / jar.name for jar in jars.locked().jars), cache)
    if archive.made:
        return Check("archive", True, f"{archive.path} ({archive.path.stat().st_size >> 20} MB)")
    # Only slower, so not a failure.
    return Check("archive", True, "none yet: starts are slower; python -m twice.engine.train_archive makes it")


def _disk(cache: Path) -> Check:
    places = {Path(tempfile.gettempdir()), existing_part(cache), Path.cwd()}
    return min((room("disk", place) for place in sorted(places)), key=lambda found: found[1])[0]


def existing_part(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists: what a first write would make it in."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def room(name: str, place: Path) -> tuple[Check, int]:
    """How much is free where a folder is, in bytes, and whether that is enough."""
    free = shutil.disk_usage(place).free
    ok = free >= FREE_GB << 30
    found = Check(name, ok, f"{free / (1 << 30):.1f} GB free at {place}", "" if ok else "Free some space there.")
    return found, free


def _session_checks(cache: Path, probes: Mapping[str, Probe], internal: bool) -> Iterator[Check]:
    with tempfile.TemporaryDirectory(prefix="twice-doctor-") as folder:
        try:
            with _session(Path(folder), cache) as session:
                yield Check("spark", True, f"Spark {session.version}, {session.sparkContext.master}")
                yield guarded("delta", lambda: _delta(session, str(Path(folder) / "table"), internal))
                yield guarded("zones", lambda: _zones(session))
                for name, probe in probes.items():
                    yield guarded(name, partial(probe, session, Path(folder) / name))
        except TwiceError as error:
            yield Check("spark", False, error.what, error.fix)


@contextmanager
def _session(folder: Path, cache: Path) -> Iterator[SparkSession]:
    from twice.engine.session.session import close, embedded, existing, run_session
    from twice.engine.session.spark_conf import SessionSettings

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


def guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except TwiceError as error:
        return Check(name, False, error.what, error.fix)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a machine belongs in the report
        return Check(name, False, f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
