"""What a key is made of is a closed choice: a part that nobody can write down is refused, never left out of the key."""

from __future__ import annotations

from typing import Any

import pytest

from twice.engine.frames import keys

UNKNOWN: Any = 1.5


def test_a_part_of_another_kind_has_no_sql_text() -> None:
    with pytest.raises(AssertionError, match=r"1\.5 is not handled here"):
        keys._sql(keys._Call("concat", ("n", UNKNOWN)))


def test_a_part_of_another_kind_is_no_column() -> None:
    with pytest.raises(AssertionError, match=r"1\.5 is not handled here"):
        keys._column(UNKNOWN)
