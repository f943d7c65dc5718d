"""The jars Spark does not ship: resolved once by Spark's own resolver, locked by sha256, kept in the user's cache.

Delta needs two of the 33 its packages name. The others are either shipped with Spark in a newer version (Jackson,
Hadoop, Parquet, log4j, RoaringBitmap …) or serve only Delta's opt-in Kernel connector and Unity Catalog.
`python -m twice.engine.session.jars` fills the cache; a second call only checks it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from twice.core.ports import SILENT, Progress
from twice.engine.session.java import find_java
from twice.errors import EnvironmentProblem, TwiceError

_LOCK = Path(__file__).with_name("jars.lock")
_PATIENCE_S = 600


@dataclass(frozen=True)
class Jar:
    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Lock:
    packages: tuple[str, ...]
    excludes: tuple[str, ...]
    jars: tuple[Jar, ...]


def locked() -> Lock:
    """What this version of twice runs with."""
    lock = json.loads(_LOCK.read_text(encoding="utf-8"))
    return Lock(tuple(lock["packages"]), tuple(lock["excludes"]), tuple(Jar(**jar) for jar in lock["jars"]))


def cache_folder() -> Path:
    """Where jars and archives are kept for all projects of this user: TWICE_CACHE, else the usual place."""
    if own := os.environ.get("TWICE_CACHE"):
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache").absolute() / "twice"


def spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())  # type: ignore[no-untyped-call]


def ready(cache: Path, lock: Lock | None = None, progress: Progress = SILENT) -> tuple[Path, ...]:
    """The locked jars, in the lock's order; missing ones are resolved first. Every file is checked each time.

    Dying here leaves a temporary folder and never a half-written jar: each is renamed into place once it is whole.
    """
    lock = lock or locked()
    folder = cache / "jars"
    if missing := [jar for jar in lock.jars if not (folder / jar.name).exists()]:
        progress.begins(f"fetching {' and '.join(jar.name for jar in missing)}, once", "Spark")
        _resolve(folder, lock, missing)
    for jar in lock.jars:
        check(folder / jar.name, jar)
    return tuple(folder / jar.name for jar in lock.jars)


def check(path: Path, jar: Jar) -> None:
    """Raise unless the file is, byte for byte, the one that was locked."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(partial(file.read, 1 << 20), b""):
            digest.update(chunk)
    if digest.hexdigest() != jar.sha256:
        raise EnvironmentProblem(
            f"{path} is not the file twice was tested with (sha256 {digest.hexdigest()[:12]}…, "
            f"locked {jar.sha256[:12]}…)",
            fix="Delete it and run: python -m twice.engine.session.jars. If it comes back the same, do not use it.",
        )


def _resolve(folder: Path, lock: Lock, missing: Sequence[Jar]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resolving-", dir=folder) as scratch:
        output = _submit(Path(scratch), lock)
        for jar in missing:
            fetched = Path(scratch) / "jars" / jar.name
            if not fetched.is_file():
                raise EnvironmentProblem(
                    f"Spark's resolver did not bring {jar.name}: {_reason(output)}",
                    fix="It needs the network once (or spark.jars.ivySettings in spark-defaults.conf for a mirror). "
                    "Then run: python -m twice.engine.session.jars.",
                )
            check(fetched, jar)
            # Two processes may both get here: the files are equal, and the rename is atomic.
            fetched.replace(folder / jar.name)


def _submit(scratch: Path, lock: Lock) -> str:
    """Start Spark's submit step only as far as its resolver: the gateway behind it ends on the closed stdin."""
    find_java()
    command = [str(spark_home() / "bin" / "spark-submit")]
    for key, value in {
        "spark.jars.packages": ",".join(lock.packages),
        "spark.jars.excludes": ",".join(lock.excludes),
        "spark.jars.ivy": str(scratch),
        "spark.ui.enabled": "false",
    }.items():
        command += ["--conf", f"{key}={value}"]
    environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "gateway"), "SPARK_CONNECT_MODE": "0"}
    try:
        done = subprocess.run(
            [*command, "pyspark-shell"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=_PATIENCE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(
            f"Spark's resolver gave no answer in {_PATIENCE_S} s", fix="Check the network and run it again."
        ) from error
    return done.stdout + done.stderr


def _reason(output: str) -> str:
    reasons = [line.strip() for line in output.splitlines() if "unresolved dependency" in line or "Exception" in line]
    return reasons[0] if reasons else "it gave no reason"


def main() -> int:
    try:
        found = ready(cache_folder())
    except TwiceError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write("".join(f"{path}\n" for path in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
