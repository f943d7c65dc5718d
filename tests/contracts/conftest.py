"""Which tests of a suite `make test` takes for a class that names them; `make test-long` takes the others."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        suite, name = getattr(item, "cls", None), getattr(item, "originalname", item.name)
        sampled, left_out = getattr(suite, "sampled", {name}), getattr(suite, "left_out", ())
        if name not in sampled or name in left_out:
            item.add_marker(pytest.mark.long)
