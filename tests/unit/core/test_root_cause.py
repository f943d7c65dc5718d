"""An error out of the JVM is shown by what stands behind it."""

from __future__ import annotations

from twice.core.failure.root_cause import cause_line, in_one_line, root_cause
from twice.errors import UsageError


class Thrown:
    """A Java error as py4j hands it out."""

    def __init__(self, message: str | None, cause: Thrown | None = None) -> None:
        self.message, self.cause = message, cause

    def getMessage(self) -> str | None:  # noqa: N802 - Java's name
        return self.message

    def getCause(self) -> Thrown | None:  # noqa: N802 - Java's name
        if self.message == "the JVM is gone":
            raise ConnectionRefusedError
        return self.cause


class CallFailed(Exception):
    """As py4j raises it, or (`kept_as`) as PySpark makes an error of its own of it."""

    def __init__(self, thrown: Thrown, kept_as: str = "java_exception") -> None:
        super().__init__("An error occurred while calling o31.merge.\n: java.lang.Exception")
        setattr(self, kept_as, thrown)


def test_the_innermost_java_error_that_has_a_message_is_shown_in_one_line() -> None:
    refused = Thrown("CHECK constraint known (status <> 'bad') violated by row with values:\n - status : bad")
    for innermost, kept_as in ((refused, "java_exception"), (Thrown(refused.message, Thrown(None)), "_origin")):
        error = CallFailed(Thrown("Job aborted.", Thrown("Task failed.", innermost)), kept_as)
        assert root_cause(error) == "CHECK constraint known (status <> 'bad') violated by row with values:"


def test_what_was_heard_before_the_jvm_died_is_shown() -> None:
    assert root_cause(CallFailed(Thrown("the JVM is gone"))) == "the JVM is gone"


def test_a_java_error_without_a_message_leaves_the_call() -> None:
    assert root_cause(CallFailed(Thrown(None))) == "An error occurred while calling o31.merge."


def test_an_error_without_java_is_shown_by_its_own_first_line() -> None:
    assert root_cause(ValueError("one\ntwo")) == "one"
    assert root_cause(ValueError()) == "(no message)"


def test_a_ring_of_causes_ends() -> None:
    ring = Thrown("round")
    ring.cause = ring
    assert root_cause(CallFailed(ring)) == "round"


def test_a_run_that_fails_in_the_jvm_shows_it_too() -> None:
    assert cause_line(CallFailed(Thrown("Job aborted.", Thrown("the disk is full")))) == "the disk is full"


def test_a_note_names_the_kind_of_error_and_what_stands_behind_it() -> None:
    unsupported = CallFailed(Thrown("Job aborted.", Thrown("the table has a feature of tomorrow")))
    assert in_one_line(unsupported) == "CallFailed: the table has a feature of tomorrow"
    assert in_one_line(UsageError("a day or more", fix="Give one.")) == "a day or more"
