"""Which Spark and which Delta this version of twice was tried with."""

from __future__ import annotations

import json

import pytest

from twice.engine.session import jars
from twice.engine.session.session import TESTED_DELTA, TESTED_SPARK, is_tested


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
