"""Signals while Python waits for the JVM, as far as that needs no JVM."""

from __future__ import annotations

import signal
import time
from types import FunctionType

import py4j.java_gateway as py4j
import pytest

from twice.engine.session import interrupts


def test_an_interrupt_that_comes_while_py4j_collects_an_object_is_not_lost() -> None:
    """A callback of a weak reference, as py4j has one for each object of the JVM."""
    collect = FunctionType((lambda: signal.raise_signal(signal.SIGINT)).__code__, {**vars(py4j), "signal": signal})
    mine = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupts.stopping_jobs({signal.SIGINT: signal.default_int_handler})
        try:
            collect()
        except KeyboardInterrupt:
            pytest.fail("Python prints what is raised in such a callback, and goes on")
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)
    finally:
        interrupts.give_back()
        signal.signal(signal.SIGINT, mine)
