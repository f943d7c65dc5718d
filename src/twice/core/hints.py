"""What to do next, for two kinds of callers: on the command line `--date 2026-06-09`, in Python `date="2026-06-09"`.

A message is written once, with `hint`; as text it is that of the command line, which is also what is stored. The Python
API rewords an error or a note where it leaves it (`Hints.in_python`). Commands in a hint can be followed as they stand:
`Hints` puts the project and the profile into them that the caller had given.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twice.errors import Hint

_OF_A_PROJECT = (
    "run|restate|retry|worker|plan|prove|graph|status|history|recover|gc|doctor|takeover|accept|rebuild|adopt"
    r"|(?:mark|ledger|config|effects) [a-z]+(?:-[a-z]+)?"
    r"|warm(?: (?:start|status|stop))?"
    r"|backfill (?:--all|\w[\w.-]*)\b"  # a task, or one of its other words: options cannot stand before it
)
_ANY_COMMAND = re.compile(rf"\btwice (?:{_OF_A_PROJECT}|init|lint)(?![-\w])")
_COMMAND = re.compile(rf"\btwice (?:{_OF_A_PROJECT})(?![-\w])(?! --pro)")
_CALL = re.compile(r"(\btwice\.(?:run|restate|retry|plan|prove|status|history|recover|backfill)\()([^()]*)\)")
_FIELDS = frozenset({"fix", "notes", "unclear", "way_out"})
"""The fields of JSON that hold hints. Others hold data, which is given as it is."""

_ARGUMENTS = {"from": "first", "to": "last", "table": "tables", "scenario": "scenarios"}
"""Options whose argument in Python has another name: `from` is a keyword there, and a list is given at once."""


@dataclass(frozen=True)
class Option:
    """`value`: None where the caller must know it; True for an option that takes none."""

    name: str
    value: str | int | tuple[str, ...] | None = None

    @property
    def command_line(self) -> str:
        if self.value is None or self.value is True:
            return f"--{self.name}"
        return f"--{self.name} {','.join(self.value) if isinstance(self.value, tuple) else self.value}"

    @property
    def python(self) -> str:
        name = _ARGUMENTS.get(self.name, self.name.replace("-", "_"))
        return f"{name}={'…' if self.value is None else _literal(self.value)}"


@dataclass(frozen=True)
class Command:
    """A command that is a verb of the Python API, too."""

    verb: str
    task: str | None
    options: tuple[Option, ...] = ()

    @property
    def command_line(self) -> str:
        task = () if self.task is None else (self.task,)
        return " ".join(["twice", self.verb, *task, *(each.command_line for each in self.options)])

    @property
    def python(self) -> str:
        task = () if self.task is None else (_literal(self.task),)
        return f"twice.{self.verb}({', '.join([*task, *(each.python for each in self.options)])})"


def option(name: str, value: str | int | tuple[str, ...] | None = None) -> Option:
    """An option, by its name on the command line without the dashes."""
    return Option(name, value)


def interval(start: str, end: str) -> Hint:
    """Whose end is not included: two options, and one argument."""
    return Hint(f"--start {start} --end {end}", f"interval=({_literal(start)}, {_literal(end)})")


def command(verb: str, task: str | None = None, *, date: str | None = None) -> Command:
    """A command about a task, or about one slice of it."""
    return Command(verb, task, () if date is None else (option("date", date),))


def hint(sentence: str, *parts: Option | Command | str) -> Hint:
    """The sentence with each `{}` filled in, for both kinds of callers. Plain text is the same for both."""
    return Hint(
        sentence.format(*(each if isinstance(each, str) else each.command_line for each in parts)),
        sentence.format(*(each.python if isinstance(each, Option | Command | Hint) else each for each in parts)),
    )


@dataclass(frozen=True)
class Hints:
    """`options` are put into each command of the shell, `arguments` into each call in Python; none where the
    surroundings say the same."""

    options: str = ""
    arguments: str = ""

    def in_text(self, text: str) -> str:
        """For the command line."""
        return _COMMAND.sub(lambda found: f"{found[0]}{self.options}", text) if self.options else text

    def in_python(self, text: str) -> str:
        """For a caller in Python. What is no verb of the API stays a command of the shell."""
        reworded = self.in_text(text.python if isinstance(text, Hint) else text)
        return _CALL.sub(self._completed, reworded) if self.arguments else reworded

    def in_data(self, value: Any, field: str = "") -> Any:
        if not self.options:
            return value
        if isinstance(value, Mapping):
            return {name: self.in_data(inner, str(name)) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.in_data(inner, field) for inner in value]
        return self.in_text(value) if isinstance(value, str) and field in _FIELDS else value

    def _completed(self, call: re.Match[str]) -> str:
        return f"{call[1]}{', '.join(filter(None, [call[2], self.arguments]))})"


def commands_in(text: str) -> frozenset[int]:
    """Where commands of the command line begin in a text."""
    return frozenset(found.start() for found in _ANY_COMMAND.finditer(text))


def hints_for(folder: Path, profile: str | None) -> Hints:
    """A profile of the environment is left out: the shell and the process keep it."""
    given = {} if folder == Path() else {"project": str(folder)}
    given |= {} if profile is None or profile == os.environ.get("TWICE_PROFILE") else {"profile": profile}
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items())
    return Hints(options, ", ".join(f"{name}={_literal(value)}" for name, value in given.items()))


def _literal(value: str | int | tuple[str, ...]) -> str:
    """As Python writes it, with double quotes."""
    return repr(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
