from __future__ import annotations

import time
from datetime import date, datetime, timezone
from pathlib import Path

from twice.proof.tasks.shifted_clock import LATER, moved


def test_the_clocks_of_a_module_of_the_project_are_moved_and_put_back() -> None:
    before = (date.today(), datetime.now(timezone.utc), time.time())
    with moved(Path("/nowhere"), globals()):
        assert date.today() >= before[0] + LATER
        assert datetime.now(timezone.utc) >= before[1] + LATER
        assert time.time() >= before[2] + LATER.total_seconds()
    assert datetime.now(timezone.utc) < before[1] + LATER
    assert date is type(before[0])
