"""The options that commands share, each declared once, and the boundary where errors become text and exit codes."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.display import Display, current_display, display_on
from twice.cli.hints import current_hints, hinting, runnable
from twice.cli.terminal import Symbol, say, screen_of
from twice.core.failure.failpoints import Action, Point, SendPoint, armed, kill_at
from twice.core.failure.interruption import Terminated, exit_code_of
from twice.core.hints import Hints, hints_for
from twice.core.scope import refuse_no_date
from twice.errors import Interrupted, TwiceError, UsageError

if TYPE_CHECKING:
    from twice.core.results.run import RunResult
    from twice.wiring.open_project import OpenProject

SCHEMA_VERSION = 1
BETWEEN_ATTEMPTS = "interrupted. No attempt was under way, so no table is half written. Run it again."
"""An attempt that is interrupted has a message of its own."""


class Format(str, Enum):
    text = "text"
    json = "json"


def output_option(help_: str) -> Any:
    """For commands with formats of their own."""
    return typer.Option("--output", "-o", help=help_)


Output = Annotated[Format, output_option("text for people, json for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress on a terminal.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Folder = Annotated[Path, typer.Option("--project", "-C", help="The project's folder, or one below it.")]
Profile = Annotated[str | None, typer.Option("--profile", help="A profile of twice.toml.", envvar="TWICE_PROFILE")]
Date = Annotated[str | None, typer.Option("--date", "-d", help="The logical date, e.g. 2026-06-09.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's name.")]
Reason = Annotated[str, typer.Option("--reason", help="The reason; it is recorded in the ledger.")]
Wait = Annotated[float | None, typer.Option("--wait", help="Seconds to wait for a busy slice.", min=0)]


@dataclass(frozen=True)
class Where:
    """The project that a command is about."""

    folder: Path = Path()
    profile: str | None = None

    def open(self) -> AbstractContextManager[OpenProject]:
        from twice.wiring.open_project import open_project  # here: the way to the help loads nothing heavy

        display = current_display()
        display.begins("opening", "project")
        return open_project(self.folder, self.profile, display)


HERE = Where()


def boundary(command: Callable[..., int | None]) -> Callable[..., None]:
    """A command as typer gets it: errors become text or JSON and the documented exit code. On a terminal it shows what
    it does, on stderr: nothing of that is in its output.

    It has the options --debug and --quiet, and for its parameter `where` the options --project and --profile.
    """

    @wraps(command)
    def bounded(*, debug: bool, quiet: bool = False, **given: Any) -> None:
        as_json = given.get("output") == "json"  # every command's own formats are strings, too
        hints = Hints()
        if "project" in given:
            given["where"] = Where(given.pop("project"), given.pop("profile"))
            hints = hints_for(given["where"].folder, given["where"].profile)
        with hinting(hints):
            try:
                display = Display(sys.stderr, display_on(sys.stderr, quiet))
                with ending_in_order(), armed(_failpoint()), display.open():
                    _check_dates(given)
                    code = command(**given) or 0
            except TwiceError as error:
                code = error.exit_code
                print_error(error, as_json=as_json, debug=debug)
            except KeyboardInterrupt as interrupt:
                code = _print_interrupted(interrupt, as_json=as_json, debug=debug)
        raise typer.Exit(code)

    options = _with_shared_options(command)
    bounded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    bounded.__annotations__ = {option.name: option.annotation for option in options}
    return bounded


def _check_dates(given: Mapping[str, Any]) -> None:
    """Before the project is read: that takes longer than to see that no task can have such a slice."""
    for name in ("date", "first", "last"):
        if given.get(name) is not None:
            refuse_no_date(given[name])


def _with_shared_options(command: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a command, with the options that all have in the place of `where` and at the end."""
    shared = {"where": [_option("project", Folder, Path()), _option("profile", Profile, None)]}
    own = inspect.signature(command, eval_str=True).parameters
    options = [each for name, one in own.items() for each in shared.get(name, [_named(one)])]
    return [*options, _option("quiet", Quiet, False), _option("debug", Debug, False)]


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _named(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def print_error(error: TwiceError, *, as_json: bool, debug: bool) -> None:
    """An error on its way to a person (stderr) or a program (stdout)."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if as_json:
        others = {"results": [run_data(result) for result in error.results]} if error.results else {}
        print_json({**others, "error": error.details()})
    else:
        say(f"error[{error.code}]: {_paragraph(error)}", Symbol.FAILED, stream=sys.stderr)


def _paragraph(error: TwiceError) -> str:
    return f"{str(error).removesuffix(error.fix)}{runnable(error.fix)}"


@contextmanager
def ending_in_order() -> Iterator[None]:
    """While a command runs, SIGTERM is like Ctrl-C: what is under way ends in order. Not where the process has a
    handler of its own."""

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


def _print_interrupted(interrupt: KeyboardInterrupt, *, as_json: bool, debug: bool) -> int:
    error = interrupt.error if isinstance(interrupt, Interrupted) else None
    if error is not None and (as_json or debug):
        print_error(error, as_json=as_json, debug=debug)
    else:
        say(_paragraph(error) if error else BETWEEN_ATTEMPTS, Symbol.NOTICE, stream=sys.stderr)
    return interrupt.exit_code if isinstance(interrupt, Interrupted) else exit_code_of(interrupt)


def run_data(result: RunResult) -> dict[str, Any]:
    return without_earlier({**asdict(result), "outcome": result.outcome.value})


def without_earlier(data: dict[str, Any]) -> dict[str, Any]:
    """Each of them is in the list itself."""
    return {key: value for key, value in data.items() if key != "earlier"}


def print_json(body: dict[str, Any]) -> None:
    completed = current_hints().in_data(body)
    print(json.dumps({"schema_version": SCHEMA_VERSION, **completed}, indent=2, default=plain))


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
        raise UsageError(f"TWICE_FAILPOINT={name!r} is not a failpoint", fix=f"Known: {', '.join(known)}.")
    return kill_at(known[name])


def ask(question: str, alone: str, kept: str) -> None:
    """A person must confirm. `alone` is what is not done without one, `kept` what stays true if they do not."""
    if not sys.stdin.isatty():
        raise UsageError(f"{alone} without a person's confirmation", now=kept, fix="Confirm it with --yes.")
    screen = screen_of(sys.stderr)
    room = replace(screen, width=screen.width and screen.width - 2)  # for the answer, in the last line
    with current_display().paused():
        confirmed = typer.confirm(room.folded(f"{question} [y/N]:"), err=True, show_default=False, prompt_suffix=" ")
    if not confirmed:
        raise UsageError("not confirmed", now=kept)
