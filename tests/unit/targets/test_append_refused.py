"""append_once() where the internal path may not be taken. No JVM: it is refused before anything is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twice.core.slice import WHOLE
from twice.core.task import TableName
from twice.core.write import AppendRows, WritePlan
from twice.errors import DeclarationError
from twice.targets.delta.target import DeltaTarget


def test_append_once_without_the_internal_path_says_which_setting_it_needs() -> None:
    conf = SimpleNamespace(set=lambda *_: None, get=lambda *_: "")
    session: Any = SimpleNamespace(conf=conf)
    target = DeltaTarget(session, lambda table: table.name, None, internal=False)  # type: ignore[arg-type]
    handle: Any = SimpleNamespace(name=TableName("shop.clicks"))
    plan = WritePlan(AppendRows((WHOLE,)), (WHOLE,), ("twice/p/clicks/all",))
    into: Any = SimpleNamespace(table=None)
    frame: Any = object()
    with pytest.raises(DeclarationError) as refused:
        target._stage(handle, into, frame, plan, "a")
    assert str(refused.value) == (
        "rows without a key cannot be appended once to shop.clicks: append_once() needs internal = true "
        "in twice.toml (it is false). The table is unchanged. Set it, or use insert_new(key)."
    )
