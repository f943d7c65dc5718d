"""SIGTERM while a command runs is like Ctrl-C, but for the exit code; never at the cost of a handler that is there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
import typer

from twice.cli.options import boundary, ending_in_order
from twice.core.failure.interruption import Terminated


@pytest.fixture(autouse=True)
def by_default() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def told_to_end() -> int:
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # else the test itself would end here
        os.kill(os.getpid(), signal.SIGTERM)
    return 0


def test_sigterm_raises_what_ends_a_command_in_order_and_the_system_decides_again_after_it() -> None:
    with pytest.raises(Terminated), ending_in_order():
        told_to_end()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_command_that_sigterm_ended_exits_143_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        boundary(told_to_end)(debug=False)
    assert (ended.value.exit_code, capsys.readouterr().err) == (
        143,
        "interrupted. No attempt was under way, so no table is half written. Run it again.\n",
    )


def test_a_handler_of_the_processs_own_stays() -> None:
    came: list[int] = []

    def own(number: int, _frame: object) -> None:
        came.append(number)

    signal.signal(signal.SIGTERM, own)
    with ending_in_order():
        assert signal.getsignal(signal.SIGTERM) is own
        told_to_end()
    assert came == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is own


def test_outside_the_main_thread_where_no_handler_can_be_set_a_command_just_runs() -> None:
    done: list[str] = []

    def run() -> None:
        with ending_in_order():
            done.append("ran")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == ["ran"]
