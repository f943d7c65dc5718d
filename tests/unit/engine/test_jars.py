"""The lock: nothing but the locked bytes is used, and an interrupted resolve leaves nothing half-done."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from twice.engine.session import jars
from twice.engine.session.jars import Jar, Lock, cache_folder, locked, ready
from twice.errors import EnvironmentProblem

BODY = b"a jar"
LOCK = Lock(("g:a:1",), (), (Jar("g_a-1.jar", hashlib.sha256(BODY).hexdigest(), len(BODY)),))


def resolver(body: bytes | None, output: str = "", calls: list[Path] | None = None) -> object:
    """Stands where Spark's submit step is called; writes what it would have fetched."""

    def submit(scratch: Path, lock: Lock) -> str:
        if calls is not None:
            calls.append(scratch)
        if body is not None:
            (scratch / "jars").mkdir()
            (scratch / "jars" / lock.jars[0].name).write_bytes(body)
        return output

    return submit


def test_the_lock_names_every_jar_with_its_hash() -> None:
    lock = locked()
    assert lock.packages == ("io.delta:delta-spark_4.1_2.13:4.4.0",)
    assert all(len(jar.sha256) == 64 and jar.size > 1000 for jar in lock.jars)


def test_missing_jars_are_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []
    monkeypatch.setattr(jars, "_submit", resolver(BODY, calls=calls))
    assert ready(tmp_path, LOCK) == ready(tmp_path, LOCK) == (tmp_path / "jars" / "g_a-1.jar",)
    assert len(calls) == 1
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["g_a-1.jar"]


def test_a_fetched_file_with_another_hash_never_enters_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_submit", resolver(b"something else"))
    with pytest.raises(EnvironmentProblem, match=r"g_a-1\.jar is not the file twice was tested with"):
        ready(tmp_path, LOCK)
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_cached_file_that_changed_is_named_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_submit", resolver(BODY))
    (path,) = ready(tmp_path, LOCK)
    path.write_bytes(b"a jaR")
    with pytest.raises(EnvironmentProblem, match=rf"{path}.*Delete it and run: python -m twice\.engine\.session\.jars"):
        ready(tmp_path, LOCK)


def test_a_resolver_that_brings_nothing_gives_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = "warn\n  :: unresolved dependency: g#a;1: not found\nmore"
    monkeypatch.setattr(jars, "_submit", resolver(None, output))
    with pytest.raises(EnvironmentProblem, match=r"did not bring g_a-1\.jar: :: unresolved dependency: g#a;1"):
        ready(tmp_path, LOCK)


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWICE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("TWICE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "twice"


def test_the_package_loads_no_engine() -> None:
    import subprocess
    import sys

    modules = "twice.engine, twice.engine.session.jars, twice.engine.session.doctor"
    code = f"import sys, {modules}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
