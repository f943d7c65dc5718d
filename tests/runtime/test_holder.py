"""Who is gone, and of whom nobody here can say it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.processes.ended import ended_process

from twice.runtime.holder import is_gone, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns").exists(), reason="only Linux shows it")


def test_a_process_that_lives_is_not_gone_and_one_that_ended_is() -> None:
    assert not is_gone(this_process())
    assert is_gone(ended_process())


def test_a_process_number_that_is_used_again_is_another_process() -> None:
    host, pid, started = this_process().split(":")
    assert is_gone(f"{host}:{pid}:{int(started) - 1}")


def test_of_another_machine_boot_or_container_nothing_is_known() -> None:
    host, pid, started = ended_process().split(":")
    name, place = host.split("/")
    for elsewhere in (f"other/{place}", f"{name}/00000000", name):
        assert not is_gone(f"{elsewhere}:{pid}:{started}"), elsewhere


@pytest.mark.parametrize("refusal", [PermissionError, FileNotFoundError])
def test_a_process_that_this_user_may_not_look_at_is_not_gone(
    monkeypatch: pytest.MonkeyPatch, refusal: type[OSError]
) -> None:
    """As where /proc is mounted with hidepid: 1 refuses, 2 shows nothing."""
    holder = this_process()

    def refused(path: Path, *args: object, **kwargs: object) -> str:
        raise refusal(str(path))

    monkeypatch.setattr(Path, "read_text", refused)
    assert not is_gone(holder)
    host, _, started = holder.split(":")
    assert not is_gone(f"{host}:1:{started}")
