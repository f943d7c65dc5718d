"""One answer about many tasks reads what it needs of each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from twice.core.ledger.found import FoundPublish
from twice.core.table.token import Intention
from twice.ledgers.ledger import Ledger
from twice.runtime.staleness.read_once import reading_once


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    for task in ("orders", "sales"):
        opened.record_found(task, [FoundPublish("2026-06-09", 1, "a", Intention("c", "i"), 1)])
    yield opened
    opened.close()


def test_what_is_read_of_a_task_is_read_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., Any]:
        ask = getattr(ledger, name)

        def answer(*given: Any) -> Any:
            asked[name] += 1
            return ask(*given)

        return answer

    for name in ("runs", "publishers", "publishes"):
        monkeypatch.setattr(ledger, name, counted(name))
    once = reading_once(ledger)
    for _ in range(3):
        assert [run.label for run in once.runs("sales")] == ["2026-06-09"]
        assert once.publishers("sales") == {} and once.publishes("sales") == ()
    assert asked == {"runs": 1, "publishers": 1, "publishes": 1}


def test_of_all_tasks_read_at_once_each_is_known(ledger: Ledger) -> None:
    once = reading_once(ledger)
    assert once.runs() == ledger.runs()
    assert {task: once.runs(task) for task in ("orders", "sales")} == {
        task: ledger.runs(task) for task in ("orders", "sales")
    }
    assert once.runs("none") == ()
    assert once.last_version("sales") == 1
