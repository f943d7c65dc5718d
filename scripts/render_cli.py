"""Write docs/reference/cli.md from the command line itself; `--check` only says whether it is right."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import typer.main

from twice.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD = """# The command line

Every command and every option. This page is made from the code by `scripts/render_cli.py`; `twice COMMAND --help`
prints the same.

What an exit code means is on [its own page](../exit-codes.md). Results go to stdout, logs and errors to stderr.
"""

SHARED = {
    "output": "`-o`, `--output`",
    "project": "`-C`, `--project`",
    "profile": "`--profile`",
    "debug": "`--debug`",
    "help": "`-h`, `--help`",
}
"""Options of nearly every command: explained once."""

SHARED_TEXT = """## Options that commands share

| option | meaning |
|---|---|
| `-C`, `--project FOLDER` | the project's folder, or one below it; the current folder if it is left out |
| `--profile NAME` | a profile of `twice.toml`; else `TWICE_PROFILE` |
| `-o`, `--output FORMAT` | `text` for people, `json` for programs; some commands have more, named in their tables |
| `--debug` | the whole trace of an error |
| `-h`, `--help` | the help of a command |

`twice --version` prints the version.
"""


def page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    commands = list(_commands(root, "twice"))
    contents = "\n".join(f"| [`{name}`](#{_anchor(name)}) | {_summary(command)} |" for name, command in commands)
    parts = [HEAD.strip(), "| command | what it does |\n|---|---|\n" + contents, SHARED_TEXT.strip()]
    for name, command in commands:
        parts += _entry(name, command)
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {word}")
        elif not command.hidden:
            yield f"{name} {word}", command


def _entry(name: str, command: Any) -> list[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    shared = [each for each in command.params if _is_shared(command, each)]
    options = [each for each in command.params if each.param_type_name == "option" and each not in shared]
    usage = " ".join([name, *(_metavar(each) for each in arguments), "[OPTIONS]"])
    parts = [f"## {name}", f"```text\n{usage}\n```", _text(command)]
    rows = [f"| `{_metavar(each)}` | {_help(each)} |" for each in arguments]
    rows += [f"| {_named(command, each)} | {_help(each)} |" for each in options]
    if rows:
        parts.append("\n".join(["| | |", "|---|---|", *rows]))
    parts.append(f"Also {', '.join(SHARED[each.name] for each in shared)}." if shared else "")
    return [part for part in parts if part]


def _is_shared(command: Any, parameter: Any) -> bool:
    """Of the formats only the two that nearly every command has."""
    if parameter.param_type_name != "option" or parameter.name not in SHARED:
        return False
    return parameter.name != "output" or _choices(_type(command, parameter)) == ["text", "json"]


def _type(command: Any, parameter: Any) -> Any:
    """As the command declares it, without the option's own settings and without None."""
    declared = inspect.signature(command.callback).parameters[parameter.name].annotation
    while get_origin(declared) is not None and not isinstance(declared, type):
        declared = next(each for each in get_args(declared) if each is not NoneType)
    return declared


def _choices(declared: Any) -> list[str]:
    return [str(each.value) for each in declared] if inspect.isclass(declared) and issubclass(declared, Enum) else []


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _summary(command: Any) -> str:
    return _cell((command.help or "").strip().split("\n\n")[0])


def _text(command: Any) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (command.help or "").strip().split("\n\n"))


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]{}")
    shown = f"{name}…" if argument.nargs == -1 else name
    return shown if argument.required else f"[{shown}]"


def _named(command: Any, option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted((*option.opts, *option.secondary_opts), key=len))
    value = _value(command, option)
    return f"{names} `{value}`" if value else names


def _value(command: Any, option: Any) -> str:
    declared = _type(command, option)
    if option.is_flag:
        return ""
    kinds = {int: "N", float: "SECONDS", Path: "PATH"}
    return _cell(option.metavar or "|".join(_choices(declared)) or kinds.get(declared, "TEXT"))


def _help(parameter: Any) -> str:
    parts = [parameter.help or ""]
    default = getattr(parameter.default, "value", parameter.default)
    if parameter.required and parameter.param_type_name == "option":
        parts.append("Required.")
    elif isinstance(default, str | int | float) and not isinstance(default, bool) and default != "":
        parts.append(f"Default: `{default}`.")
    if getattr(parameter, "multiple", False) and not {"several", "repeated."} & set(parts[0].split()):
        parts.append("May be given several times.")
    return _cell(" ".join(part for part in parts if part))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is not what would be written")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print("docs/reference/cli.md is not what the code says; run: python scripts/render_cli.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
