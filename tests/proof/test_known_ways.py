"""Some of the twenty-four pipelines: what is broken is caught with the right blame, its sound twin is not accused.

`make soak` proves all of them, the sound ones in every scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.proof.known_ways import WAYS, Ground, Way, ground, wrong
from tests.sample import sample

pytestmark = pytest.mark.timeout(300)
HERE = [way for way in WAYS if way.name in ("append", "arbitrary_survivor", "list_order", "mark_before_data")]
FEW = [way for way in HERE if way.name == "append"]


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(spark, tmp_path_factory.mktemp("ways")) as built:
        yield built


@pytest.mark.parametrize("way", sample(HERE, of=FEW), ids=lambda way: way.name)
def test_what_is_broken_is_caught_with_the_right_blame(made: Ground, way: Way) -> None:
    assert wrong(way, made.prove(way, False, way.scenario), sound=False) is None


@pytest.mark.parametrize("way", sample(HERE, of=FEW), ids=lambda way: way.name)
def test_what_is_sound_is_not_accused(made: Ground, way: Way) -> None:
    assert wrong(way, made.prove(way, True, way.scenario), sound=True) is None


def test_twelve_ways_have_a_name_a_twin_and_a_blame_of_their_own() -> None:
    assert len(WAYS) == len({way.name for way in WAYS}) == 12
