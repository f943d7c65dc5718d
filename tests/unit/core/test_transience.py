"""Transient or permanent: the one table, and how an error's signs are read."""

from __future__ import annotations

import importlib
import socket
import sqlite3
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from twice import errors
from twice.core.failure import transience
from twice.core.failure.transience import Nature, Signs, judge, of_sqlstate, of_status
from twice.engine.causes import signs
from twice.ledgers.database.known_errors import POSTGRES

T, P = Nature.TRANSIENT, Nature.PERMANENT


def nature(error: BaseException, **marks: Any) -> Nature:
    return judge(signs(error), **marks).nature


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


class WithResponse(Exception):
    def __init__(self, response: Any) -> None:
        super().__init__("no success")
        self.response = response


class Coded(psycopg.OperationalError):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("the server said no")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError("cut"), T),
        (TimeoutError(), T),
        (socket.gaierror(-3, "try again"), T),
        (ValueError("no rate for EUR"), P),
        (Exception("?"), P),
        (MemoryError(), P),
        (OSError(28, "No space left on device"), P),
        (psycopg.OperationalError("connection failed: Connection refused"), T),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "x"'), P),
        (psycopg.OperationalError('FATAL:  database "shop" does not exist'), P),
        (psycopg.errors.DeadlockDetected("deadlock"), T),
        (psycopg.errors.SerializationFailure("again"), T),
        (psycopg.errors.UndefinedTable("no table"), P),
        (psycopg.errors.DiskFull("full"), P),
        (psycopg.errors.QueryCanceled("by a person"), P),
        (Coded("57P03"), T),
        (Coded("28P01"), P),
        (sqlite3.OperationalError("database is locked"), T),
        (sqlite3.OperationalError("no such table: x"), P),
        (OperationalError("SELECT 1", {}, psycopg.errors.AdminShutdown("stop")), T),
        (WithResponse(SimpleNamespace(status_code=503)), T),
        (WithResponse(SimpleNamespace(status_code=404)), P),
        (WithResponse({"ResponseMetadata": {"HTTPStatusCode": 429}}), T),
        (HTTPError("http://x", 502, "bad gateway", {}, None), T),  # type: ignore[arg-type]
        (HTTPError("http://x", 401, "who are you", {}, None), P),  # type: ignore[arg-type]
        (URLError(ConnectionRefusedError(111, "refused")), T),
        (type("ConcurrentAppendException", (Exception,), {"__module__": "delta.exceptions.base"})("a conflict"), T),
        (errors.StageMismatch("3 rows for 4"), T),
        (errors.TableChanged("the snapshot is gone"), T),
        (errors.OutcomeUnknown("lost"), T),
        (errors.AuditFailed("audit seen failed: database is locked"), P),
        (errors.Nondeterministic("rand"), P),
        (errors.DeclarationError("?"), P),
        (errors.SliceBusy("?"), P),
        (errors.LeaseLost("?"), P),
        (errors.UserCodeError("?"), P),
        (caused(errors.UserCodeError("?"), ConnectionAbortedError()), T),
        (caused(errors.UserCodeError("?"), KeyError("eur")), P),
        (caused(errors.EnvironmentProblem("?"), psycopg.errors.CannotConnectNow("starting")), T),
        (caused(errors.AuditFailed("?"), ConnectionResetError()), P),
    ],
    ids=repr,
)
def test_errors_are_judged_by_the_most_exact_thing_they_say(error: Exception, expected: Nature) -> None:
    assert nature(error) is expected


@pytest.mark.parametrize(
    ("error", "person"),
    [
        (errors.StageMismatch("3 rows for 4"), True),
        (errors.StageLost("the staged rows are gone"), False),
        (errors.TableChanged("the snapshot is gone"), False),
        (RuntimeError("  File …\ntwice.errors.TableChanged: the snapshot is gone"), False),  # from one of Spark's tasks
    ],
    ids=repr,
)
def test_what_others_did_or_what_was_away_is_not_for_a_person_to_look_at(error: Exception, person: bool) -> None:
    found = judge(signs(error))
    assert (found.nature, found.person) == (T, person)


def test_an_error_that_merely_happened_while_another_was_handled_is_not_excused_by_it() -> None:
    try:
        try:
            raise ConnectionResetError
        except ConnectionResetError:
            raise ValueError("and now?")  # noqa: B904 - the point
    except ValueError as error:
        assert nature(error) is P


def test_a_ring_of_causes_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert len(signs(one)) == 2


@pytest.mark.parametrize("mark", [KeyError, "KeyError", "builtins.KeyError", LookupError])
def test_a_task_names_transient_errors_by_class_or_by_its_name(mark: Any) -> None:
    error = caused(errors.UserCodeError("?"), KeyError("eur"))
    assert nature(error, transient=[mark]) is T
    assert judge(signs(error), transient=[mark]).why.startswith("the task says ")


def test_a_task_names_errors_by_sqlstate_condition_and_status() -> None:
    failed = Signs(("org.apache.spark.SparkException",), "KD001", "FAILED_READ_FILE.NO_HINT", 418)
    for mark in ("KD001", "KD", "FAILED_READ_FILE", "FAILED_READ_FILE.NO_HINT", 418):
        assert judge([failed], transient=[mark]).nature is T
    for mark in ("KD002", "FAILED", "FAILED_READ_FILE.OTHER", 503, "SparkEx"):
        assert judge([failed], transient=[mark]).nature is P


def test_permanent_outweighs_transient_and_both_outweigh_the_table() -> None:
    assert nature(ConnectionResetError(), permanent=[ConnectionResetError], transient=[ConnectionError]) is P
    assert nature(ConnectionResetError(), permanent=[BrokenPipeError]) is T


@pytest.mark.parametrize("refused", [errors.AuditFailed, errors.DeclarationError, errors.Nondeterministic])
def test_no_task_can_call_a_refusal_of_twice_passing(refused: type[errors.TwiceError]) -> None:
    assert nature(refused("?"), transient=[Exception, refused]) is P


@pytest.mark.parametrize(
    ("status", "expected"), [(400, P), (404, P), (408, T), (409, P), (429, T), (500, T), (501, P), (503, T), (599, P)]
)
def test_http_statuses(status: int, expected: Nature) -> None:
    assert of_status(status) is expected


def test_an_sqlstate_is_judged_by_its_longest_prefix() -> None:
    assert (of_sqlstate("08006"), of_sqlstate("08P01"), of_sqlstate("42P01")) == (T, P, None)


def test_the_ledger_and_the_table_agree_on_what_passes() -> None:
    states = [each for each in POSTGRES if each.words[:2].isdigit()]
    assert len(states) > 8
    assert {each.words: of_sqlstate(each.words) is T for each in states} == {
        each.words: each.passing for each in states
    }


def test_a_wrapper_whose_code_says_nothing_leaves_it_to_its_cause() -> None:
    wrapper = Signs(("org.apache.spark.SparkException",), "58030", "TASK_WRITE_FAILED")
    cause = Signs(("java.net.ConnectException", "java.net.SocketException", "java.io.IOException"))
    assert judge([wrapper, cause]).nature is T
    assert judge([wrapper]).nature is P
    assert judge([Signs(("x.DeltaError",), "2D521", "DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT")]).nature is T


def test_every_listed_class_that_is_installed_has_that_name() -> None:
    seen = 0
    for name in transience.CLASSES:
        module, _, last = name.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), last)
        except ModuleNotFoundError:
            continue
        # On newer Pythons some are another name of a class that is listed, too.
        assert transience.match_text(found) in transience.CLASSES, name
        seen += 1
    assert seen > 15
