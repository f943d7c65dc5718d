"""How a message lists names."""

from __future__ import annotations

import pytest

from twice.core.names.first_few import first_few


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d", "e"], "a, b, c, and 2 more")],
)
def test_a_message_lists_a_few_names_and_how_many_more_there_are(names: list[str], text: str) -> None:
    assert first_few(names) == text


def test_a_message_may_list_more_of_them() -> None:
    assert first_few(tuple("abcdefg"), 5) == "a, b, c, d, e, and 2 more"
