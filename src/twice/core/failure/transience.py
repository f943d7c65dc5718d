"""Is an error passing, or here to stay? One table, by what errors say of themselves. Pure: no driver is imported.

An error is judged by the most exact thing it says: a Spark condition, an SQLSTATE, an HTTP status, else its class or
(where a system gives nothing better) its words. What is not listed is permanent: trying again what cannot work hides
it. A task says what it knows better with `Retry(transient=…, permanent=…)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from twice.core.failure.sqlstate import passes

ErrorMatch = type[BaseException] | str | int
"""How a person names errors: a class, a class's name (also a Java one), an SQLSTATE or its first two characters, a
Spark condition, an HTTP status."""


class Nature(str, Enum):
    TRANSIENT = "transient"  # a new attempt may go well by itself
    PERMANENT = "permanent"  # somebody must change something first


T, P = Nature.TRANSIENT, Nature.PERMANENT

CANCELLED = ("OPERATION_CANCELED", "SPARK_JOB_CANCELLED")
"""Spark's conditions where somebody wanted it to end."""

# fmt: off
STATUSES: Mapping[int, Nature] = {
    408: T, 425: T, 429: T,            # too slow, too early, too many
    500: T, 502: T, 503: T, 504: T,
    507: P,                            # out of space
    520: T, 521: T, 522: T, 523: T, 524: T, 529: T,  # what proxies and overloaded services say beside the standard
}

CONDITIONS: Mapping[str, Nature] = {   # Spark's and Delta's names
    "DELTA_CONCURRENT_APPEND": T, "DELTA_CONCURRENT_DELETE_DELETE": T, "DELTA_CONCURRENT_DELETE_READ": T,
    "DELTA_CONCURRENT_TRANSACTION": T, "DELTA_CONCURRENT_WRITE": T, "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": T,
    "DELTA_METADATA_CHANGED": T, "DELTA_PROTOCOL_CHANGED": T,
    "DELTA_ACTIVE_SPARK_SESSION_NOT_FOUND": P,
    **dict.fromkeys(CANCELLED, P),
}

CLASSES: Mapping[str, Nature] = {
    # Ours. UserCodeError, EnvironmentProblem and a plain RunError say nothing: their cause does.
    "twice.errors.UsageError": P, "twice.errors.DeclarationError": P, "twice.errors.SliceBusy": P,
    "twice.errors.InputMissing": P, "twice.errors.ResultRefused": P, "twice.errors.AuditFailed": P,
    "twice.errors.Superseded": P, "twice.errors.LeaseLost": P, "twice.errors.Quarantined": P,
    "twice.errors.LedgerOutOfReach": T, "twice.errors.StageMismatch": T, "twice.errors.StageLost": T,
    "twice.errors.TableChanged": T, "twice.errors.FileChanged": T,
    "twice.errors.OutcomeUnknown": T,
    # Python
    "builtins.KeyboardInterrupt": P,
    "builtins.ConnectionError": T, "builtins.TimeoutError": T, "asyncio.exceptions.TimeoutError": T,
    "concurrent.futures._base.TimeoutError": T, "socket.gaierror": T,
    "http.client.RemoteDisconnected": T, "http.client.IncompleteRead": T,
    "ssl.SSLCertVerificationError": P,
    "requests.exceptions.SSLError": P, "requests.exceptions.ConnectionError": T, "requests.exceptions.Timeout": T,
    "requests.exceptions.ChunkedEncodingError": T,
    "httpx.UnsupportedProtocol": P, "httpx.TransportError": T,
    "urllib3.exceptions.TimeoutError": T, "urllib3.exceptions.ProtocolError": T,
    "botocore.exceptions.ConnectionError": T, "botocore.exceptions.HTTPClientError": T,
    "psycopg.OperationalError": T, "psycopg2.OperationalError": T,
    # Delta's conflicts, where the user's code has imported its Python package: without their condition.
    **{f"delta.exceptions.base.{name}Exception": T for name in (
        "ConcurrentAppend", "ConcurrentDeleteDelete", "ConcurrentDeleteRead", "ConcurrentTransaction",
        "ConcurrentWrite", "DeltaConcurrentModification", "MetadataChanged", "ProtocolChanged")},
    # The JVM behind this session is gone: only a new process helps.
    "py4j.protocol.Py4JNetworkError": P,
    # Java, as the cause of a Spark error
    "java.net.SocketException": T, "java.net.SocketTimeoutException": T, "java.net.UnknownHostException": T,
    "java.net.http.HttpTimeoutException": T, "java.util.concurrent.TimeoutException": T,
    "java.sql.SQLTransientException": T, "java.sql.SQLRecoverableException": T,
    "org.apache.http.NoHttpResponseException": T, "org.apache.http.conn.ConnectTimeoutException": T,
    "org.apache.hadoop.ipc.RetriableException": T, "org.apache.hadoop.ipc.StandbyException": T,
    "org.apache.hadoop.fs.s3a.AWSServiceThrottledException": T, "org.apache.hadoop.fs.s3a.AWSStatus500Exception": T,
    "org.apache.spark.rpc.RpcTimeoutException": T, "org.apache.spark.shuffle.FetchFailedException": T,
}

WORDS: Mapping[str, Nature] = {        # of systems that give no code; in the order they are looked for
    # Raised in one of Spark's tasks, which hands it on as text.
    "twice.errors.StageMismatch: ": T, "twice.errors.TableChanged: ": T,
    # psycopg has no SQLSTATE for a connection that was refused.
    "password authentication failed": P, "no pg_hba.conf entry": P, "no password supplied": P,
    "does not exist": P, "not permitted to log in": P,
    "database is locked": T, "database table is locked": T,  # SQLite
    "ExecutorLostFailure": T,
}
# fmt: on

FOR_A_PERSON = frozenset(
    {"twice.errors.StageMismatch", "ExecutorLostFailure", "org.apache.spark.shuffle.FetchFailedException"}
)
"""Transient errors that do not come from outside: one that comes each time is this slice's own (its code gives another
result each time, its rows fill an executor's memory), and waiting does not help. A server that is down returns."""

_DEPTH = 30
"""How far a chain of causes is followed; a longer one is a ring."""


@dataclass(frozen=True)
class Signs:
    """What one error of a chain says of itself. `classes`: its own and those it derives from, nearest first."""

    classes: tuple[str, ...]
    sqlstate: str | None = None
    condition: str | None = None
    status: int | None = None
    message: str = ""

    @property
    def ours(self) -> bool:
        return self.classes[0].startswith("twice.errors.")


@dataclass(frozen=True)
class Judgement:
    """`why` is shown to people: the sign that decided. `person`: if it is still so after every retry, somebody must
    look at the slice."""

    nature: Nature
    why: str
    person: bool = False


def judge(
    chain: Sequence[Signs], *, transient: Sequence[ErrorMatch] = (), permanent: Sequence[ErrorMatch] = ()
) -> Judgement:
    """The nature of an error, by its own signs and then those of its causes, outermost first. What the task
    says comes before the table, and `permanent` before `transient`: it is the careful one. What twice itself refuses (a
    failed audit, a wrong declaration) no task can call passing."""
    refused = _by_table(chain[0]) if chain[0].ours else None
    if refused is not None and refused.nature is P:
        return refused
    for nature, matches in ((P, permanent), (T, transient)):
        for match in matches:
            if any(_matches(signs, match) for signs in chain):
                return Judgement(nature, f"the task says {match_text(match)} is {nature.value}")
    for signs in chain:
        found = _by_table(signs)
        if found is not None:
            return found
    return Judgement(P, "nothing about it is known to be passing")


def of_status(status: int) -> Nature:
    """An HTTP answer that is no success."""
    return STATUSES.get(status, P)


def of_sqlstate(sqlstate: str) -> Nature | None:
    """None where `core.failure.sqlstate` says nothing about it."""
    passing = passes(sqlstate)
    return None if passing is None else T if passing else P


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its explicit causes, outermost first. `raise … from None` and errors that merely happened while
    another one was handled say nothing about each other."""
    seen: set[int] = set()
    each: object = error
    while isinstance(each, BaseException) and id(each) not in seen and len(seen) < _DEPTH:
        seen.add(id(each))
        yield each
        # SQLAlchemy keeps the driver's error as `orig`, urllib its cause as `reason`.
        each = each.__cause__ or getattr(each, "orig", None) or getattr(each, "reason", None)


def read(error: BaseException) -> Signs:
    """One error's own signs, without its causes."""
    sqlstate = getattr(error, "sqlstate", None)
    return Signs(
        classes=tuple(match_text(each) for each in type(error).__mro__[:-1]),
        sqlstate=sqlstate if isinstance(sqlstate, str) and sqlstate else None,
        status=_status(error),
        message=_message(error),
    )


def match_text(match: ErrorMatch) -> str:
    return f"{match.__module__}.{match.__qualname__}" if isinstance(match, type) else str(match)


def _by_table(signs: Signs) -> Judgement | None:
    if signs.condition is not None:
        condition = signs.condition.partition(".")[0]
        if condition in CONDITIONS:
            return Judgement(CONDITIONS[condition], f"condition {signs.condition}")
    if signs.sqlstate is not None:
        nature = of_sqlstate(signs.sqlstate)
        # A class says less than a code: an OperationalError with a code that is not listed is not a lost connection.
        return Judgement(nature, f"SQLSTATE {signs.sqlstate}") if nature else None
    if signs.status is not None:
        return Judgement(of_status(signs.status), f"HTTP status {signs.status}")
    words = next((words for words in WORDS if words in signs.message), None)
    # Our own errors quote others; their class is what they say.
    if words is not None and not signs.ours:
        return Judgement(WORDS[words], f"{words!r}", words in FOR_A_PERSON)
    for name in signs.classes:
        if name in CLASSES:
            short = name.removeprefix("builtins.").removeprefix("twice.errors.")
            return Judgement(CLASSES[name], short, name in FOR_A_PERSON)
    return None


def _matches(signs: Signs, match: ErrorMatch) -> bool:
    if isinstance(match, int):
        return signs.status == match
    name = match_text(match)
    if any(name in (each, each.rpartition(".")[2]) for each in signs.classes):
        return True
    if signs.sqlstate is not None and name in (signs.sqlstate, signs.sqlstate[:2]):
        return True
    return signs.condition is not None and (signs.condition == name or signs.condition.startswith(f"{name}."))


def _message(error: BaseException) -> str:
    # Not str(): a PySpark error asks its JVM, which may be gone. What is in `args` is at hand.
    return " ".join(arg for arg in error.args if isinstance(arg, str))


def _status(error: BaseException) -> int | None:
    """As requests, httpx, aiohttp, urllib, Google's and Amazon's clients keep it."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        response = response.get("ResponseMetadata")
        found = response.get("HTTPStatusCode") if isinstance(response, Mapping) else None
        candidates = [found]
    else:
        candidates = [getattr(response, "status_code", None)]
        candidates += [getattr(error, name, None) for name in ("status_code", "status", "code")]
    for value in candidates:
        if isinstance(value, int) and 400 <= value <= 599:
            return int(value)
    return None
