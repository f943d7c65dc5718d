"""When is a failed attempt tried again, and how long to wait before. Pure: the random draw is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from twice.core.failure.transience import ErrorMatch, Judgement, Nature, Signs, judge, match_text
from twice.errors import DeclarationError


@dataclass(frozen=True)
class Retry:
    """How often, how long, and what. Only transient errors are tried again, each time as a new attempt that looks
    first. `attempts`: in all; 1 leaves retries to whoever calls. `total`: no attempt begins later than this after the
    first one failed. The wait before attempt n+1 is drawn between half the ceiling `first * 2**(n-1)`, at most
    `longest`, and the whole of it: by default the waits last three minutes at least, longer than a database takes to
    restart. `transient`, `permanent`: what this task knows better than the table."""

    attempts: int = 10
    total: timedelta = timedelta(minutes=10)
    first: timedelta = timedelta(seconds=5)
    longest: timedelta = timedelta(minutes=1)
    transient: Sequence[ErrorMatch] = ()
    permanent: Sequence[ErrorMatch] = ()

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise DeclarationError(
                f"Retry(attempts={self.attempts!r})", fix="Write a number from 1 on; 1 never retries."
            )
        for name in ("total", "first", "longest"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise DeclarationError(
                    f"Retry({name}={value!r}) is not a valid length of time", fix=f"Write {name}=hours(1)."
                )
        for name in ("transient", "permanent"):
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        both = {match_text(match) for match in self.transient} & {match_text(match) for match in self.permanent}
        if both:
            raise DeclarationError(f"Retry: {min(both)} is both transient and permanent", fix="Leave one out.")


@dataclass(frozen=True)
class Failure:
    """What is known when attempt `number` (from 1) has failed, `elapsed` after the first one did."""

    number: int
    elapsed: timedelta
    judgement: Judgement


def classify(retry: Retry, chain: Sequence[Signs]) -> Judgement:
    return judge(chain, transient=retry.transient, permanent=retry.permanent)


def pause_after(retry: Retry, failure: Failure, draw: float) -> timedelta | None:
    """How long to wait for the next attempt; None: there is none. `draw` is uniform in [0, 1): many runs felled by one
    outage do not come back all at once, and yet none of them gives up before half the waits are over."""
    if failure.judgement.nature is Nature.PERMANENT or failure.number >= retry.attempts:
        return None
    pause = ceiling(retry, failure.number) * ((1 + draw) / 2)
    return pause if failure.elapsed + pause <= retry.total else None


def gives_up(retry: Retry, failure: Failure, pause: timedelta | None) -> bool:
    """Whether what came each time, on every retry, is for a person to look at. What is only away (a server, a network)
    is not: whoever calls may try again later. A permanent error needs no such brake, and who retries by himself
    (`attempts=1`) must not be stopped by us."""
    judgement = failure.judgement
    return pause is None and judgement.nature is Nature.TRANSIENT and judgement.person and retry.attempts > 1


def ceiling(retry: Retry, number: int) -> timedelta:
    """The longest wait after attempt `number`."""
    # In seconds: a timedelta overflows where the exponent is large.
    return timedelta(
        seconds=min(retry.longest.total_seconds(), retry.first.total_seconds() * 2.0 ** min(number - 1, 60))
    )


def _checked(name: str, matches: object) -> tuple[ErrorMatch, ...]:
    if isinstance(matches, (str, int, type)) or not isinstance(matches, Sequence):
        raise DeclarationError(
            f"Retry({name}={matches!r}) is not a list", fix=f"Write {name}=[ConnectionError, '40001', 503]."
        )
    for match in matches:
        if not (
            (isinstance(match, type) and issubclass(match, BaseException))
            or (isinstance(match, str) and match.strip())
            or (type(match) is int and 400 <= match <= 599)
        ):
            raise DeclarationError(
                f"Retry({name}=…) cannot recognise an error by {match!r}",
                fix="Give an exception class or its name, an SQLSTATE, a Spark condition or an HTTP status.",
            )
    return tuple(matches)
