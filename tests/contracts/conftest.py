"""Which tests of a suite `make test` takes for a class that names them; `make test-long` takes the others."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        sampled = getattr(getattr(item, "cls", None), "sampled", None)
        if sampled is not None and getattr(item, "originalname", item.name) not in sampled:
            item.add_marker(pytest.mark.long)
