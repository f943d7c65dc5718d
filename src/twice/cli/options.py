"""Options that several commands share, and the boundary where errors become text and exit codes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, ParamSpec

import typer

from twice.core.failpoints import Action, Point, SendPoint, armed, kill_at
from twice.core.interruption import Terminated, exit_code_of
from twice.errors import Interrupted, TwiceError, UsageError

SCHEMA_VERSION = 1


class Format(str, Enum):
    text = "text"
    json = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="text for people, json for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Folder = Annotated[Path, typer.Option("--project", "-C", help="The project's folder, or one below it.")]
Profile = Annotated[str | None, typer.Option("--profile", help="A profile of twice.toml.", envvar="TWICE_PROFILE")]
Date = Annotated[str | None, typer.Option("--date", "-d", help="The logical date, e.g. 2026-06-09.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's name.")]
Wait = Annotated[float | None, typer.Option("--wait", help="Seconds to wait for a busy slice.", min=0)]

P = ParamSpec("P")


def boundary(command: Callable[P, int | None]) -> Callable[P, None]:
    """Run a command; tell errors as text or JSON; leave with the documented exit code."""

    @wraps(command)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = kwargs.get("output") == "json"  # every command's own formats are strings, too
        try:
            with ending_in_order(), armed(_failpoint()):
                code = command(*args, **kwargs) or 0
        except TwiceError as error:
            code = error.exit_code
            tell(error, as_json=as_json, debug=bool(kwargs.get("debug")))
        except KeyboardInterrupt as interrupt:
            code = _tell_interrupted(interrupt, as_json=as_json, debug=bool(kwargs.get("debug")))
        raise typer.Exit(code)

    return bounded


def tell(error: TwiceError, *, as_json: bool, debug: bool) -> None:
    """An error on its way to a person (stderr) or a program (stdout)."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        print_json({"error": error.details()})
    else:
        print(f"error[{error.code}]: {error}", file=sys.stderr)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM is heard like Ctrl-C for as long as a command lasts: what is under way ends in order. Only where nobody
    else has a say in it."""

    def terminated(_: int, __: FrameType | None) -> None:
        raise Terminated

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _tell_interrupted(interrupt: KeyboardInterrupt, *, as_json: bool, debug: bool) -> int:
    told = interrupt.error if isinstance(interrupt, Interrupted) else None
    if told is not None and (as_json or debug):
        tell(told, as_json=as_json, debug=debug)
    else:
        print(told or "interrupted", file=sys.stderr)
    return interrupt.exit_code if isinstance(interrupt, Interrupted) else exit_code_of(interrupt)


def print_json(body: dict[str, Any]) -> None:
    print(json.dumps({"schema_version": SCHEMA_VERSION, **body}, indent=2, default=plain))


def plain(value: Any) -> str:
    """What JSON has no form for, as text."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _failpoint() -> Action:
    """TWICE_FAILPOINT=before_commit makes this process die there, for crash tests and the demo."""
    name = os.environ.get("TWICE_FAILPOINT")
    if not name:
        return lambda _: None
    known: dict[str, Point | SendPoint] = {point.value: point for point in (*Point, *SendPoint)}
    if name not in known:
        raise UsageError(f"TWICE_FAILPOINT={name!r} is no failpoint", fix=f"Known: {', '.join(known)}.")
    return kill_at(known[name])


def ask(question: str, alone: str, kept: str) -> None:
    """A person must say yes. `alone` is what is not done without one, `kept` what stays true if they do not."""
    if not sys.stdin.isatty():
        raise UsageError(f"{alone} without a person's word", fix="Say it with --yes.")
    if not typer.confirm(question, err=True):
        raise UsageError("not confirmed", now=kept)
