"""warm: keep Spark ready, so that commands attach to it instead of starting their own."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.backfill import DefaultToStart
from twice.cli.display import current_display
from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, Where, boundary, print_json
from twice.cli.terminal import Symbol, say
from twice.core.results.summary import counted

if TYPE_CHECKING:
    from twice.project.warm import WarmSpark


class Started(DefaultToStart):
    """`twice warm` alone starts one, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["start"])


@boundary
def start(
    idle: Annotated[int, typer.Option("--idle", help="Minutes without a command, after which it ends.", min=1)] = 30,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Its memory, such as 2g; else spark.memory of the project.")
    ] = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Keep a Spark with its session ready for this project: twice warm.

    Every command that needs Spark attaches to it, if it would start the very same itself: the same settings, working
    folder and environment variables. Python, and so your code, is new each time. It ends when no command has needed it
    for a while, when it holds too much memory, and with twice warm stop.
    """
    from twice.config import load
    from twice.project import warm

    found, started = warm.start(load(where.folder, where.profile), idle * 60, memory, current_display())
    if output is Format.json:
        print_json({"started": started, "warm": asdict(found)})
        return 0
    say(f"Spark is {'warm now' if started else 'warm already'}: {_text(found)}", Symbol.DONE)
    return 0


@boundary
def status(output: Output = Format.text, where: Where = HERE) -> int:
    """Show what is kept warm for this project, and whether commands attach to it. Exit 1 if nothing is."""
    from twice.config import load
    from twice.project import warm

    found = warm.found(load(where.folder, where.profile))
    if output is Format.json:
        print_json({"warm": [asdict(each) for each in found]})
    elif not found:
        say(runnable("no Spark is kept warm for this project. Keep one: twice warm"), Symbol.NOTICE)
    for each in found if output is Format.text else ():
        say(_text(each), Symbol.NOTICE if each.differs else Symbol.DONE)
        if each.differs:
            say(f"  commands typed here start their own: it has {each.differs}")
        for command in each.attached:
            say(f"  attached: {command.command} (process {command.pid})")
    return 0 if found else 1


@boundary
def stop(
    force: Annotated[bool, typer.Option("--force", help="Even while a command is attached: it then fails.")] = False,
    where: Where = HERE,
) -> int:
    """End what is kept warm for this project."""
    from twice.config import load
    from twice.project import warm

    ended = warm.stop(load(where.folder, where.profile), by_force=force)
    say(f"{counted(ended, 'warm Spark')} ended" if ended else "no Spark was kept warm", Symbol.DONE)
    return 0


def _text(each: WarmSpark) -> str:
    return (
        f"process {each.pid}, {counted(each.served, 'command')} served, {each.used_mib:,} of {each.memory_mib:,} MiB "
        f"in use, ends after {each.idle_s // 60} min without a command"
    )
