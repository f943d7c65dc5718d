"""Which Spark and which Delta this version of twice was tried with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twice.engine.session import doctor, jars, session
from twice.engine.session.session import TESTED_DELTA, TESTED_SPARK, is_tested
from twice.engine.warm import attach
from twice.errors import EnvironmentProblem
from twice.wiring.open_project import open_project


@pytest.mark.parametrize(
    ("spark", "delta"),
    [("4.1.4", "4.5.0"), ("4.1.4", "4.4.1"), ("4.2.0", "4.4.0"), ("4.10.0", "4.4.0"), ("5.0.0", "5.0.0")],
)
def test_other_versions_are_not_tested(spark: str, delta: str) -> None:
    assert not is_tested(spark, delta)
    assert is_tested("4.1.4", "4.4.0")
    assert is_tested("4.1.99", "4.4.0")


def test_the_jars_that_twice_brings_are_those_it_was_tested_with() -> None:
    locked = json.loads(jars._LOCK.read_text(encoding="utf-8"))
    assert locked["packages"] == [f"io.delta:delta-spark_{TESTED_SPARK}_2.13:{TESTED_DELTA}"]


def test_another_delta_is_one_sentence_at_the_start_and_none_with_internal_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        version = "4.2.0"

    monkeypatch.setattr(attach, "warm_or_own", lambda *_: Session())
    monkeypatch.setattr(session, "delta_version", lambda _: "4.5.0")
    toml, pipelines = tmp_path / "twice.toml", tmp_path / "pipelines"
    toml.write_text('project = "p"\n')
    pipelines.mkdir()
    with open_project(tmp_path) as opened, pytest.raises(EnvironmentProblem) as refused:
        _ = opened.spark
    assert str(refused.value) == (
        "this is Delta 4.5.0 on Spark 4.2.0, and twice was tested with Delta "
        f"{TESTED_DELTA} on Spark {TESTED_SPARK}.x. "
        "Set internal = false in twice.toml to write rows by Delta's public calls, or use those versions."
    )
    toml.write_text('project = "p"\ninternal = false\n')
    with open_project(tmp_path) as opened:
        assert isinstance(opened.spark, Session)


def test_with_internal_false_doctor_says_one_sentence_of_another_spark_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "4.2.0")
    for name in ("_java", "_jars", "_archive"):
        monkeypatch.setattr(doctor, name, lambda *_, name=name: doctor.Check(name[1:], True, "there"))
    monkeypatch.setattr(doctor, "_session_checks", lambda *_: iter([doctor.Check("spark", True, "Spark 4.2.0")]))
    found = {each.name: each for each in doctor.checks(tmp_path, internal=True)}
    assert (found["pyspark"].ok, found["spark"].detail) == (False, "not tried")
    assert found["pyspark"].fix == (
        'Run: pip install "pyspark>=4.1.4,<4.2", or set internal = false in twice.toml '
        "to write by Delta's public calls."
    )
    found = {each.name: each for each in doctor.checks(tmp_path, internal=False)}
    assert (found["pyspark"].ok, found["pyspark"].fix) == (True, "")
    assert found["pyspark"].detail == "4.2.0, tested is 4.1: internal = false is set"
    assert found["spark"].detail == "Spark 4.2.0"


def test_spark_3_is_too_old_whatever_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    found = doctor._pyspark(internal=False)
    assert (found.ok, found.fix) == (False, 'Run: pip install "pyspark>=4.1.4,<4.2".')
