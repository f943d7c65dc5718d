"""backfill and worker: many slices by one frozen plan."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from twice.cli.backfill_text import (
    print_end,
    print_plan,
    print_whole,
    record_data,
    record_line,
    result_data,
    resumed_line,
)
from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, TaskName, Where, boundary, output_option, print_json
from twice.core.backfill.plan import BackfillRequest, parse_batch, parse_only
from twice.core.backfill.result import BackfillRecord, BackfillResult, as_result
from twice.core.results.summary import counted_of

if TYPE_CHECKING:
    from twice.wiring.open_project import OpenProject


class Stream(str, Enum):
    text = "text"
    json = "json"
    jsonl = "jsonl"


class Effects(str, Enum):
    silent = "silent"
    send = "send"


First = Annotated[str, typer.Option("--from", help="The first slice, e.g. 2026-01-01.")]
Last = Annotated[str, typer.Option("--to", help="The last slice, included.")]
Only = Annotated[str | None, typer.Option("--only", help="Of missing,failed,stale,published.  [missing,failed]")]
Parallel = Annotated[int, typer.Option("--parallel", help="How many batches at once in this process.", min=1, max=64)]
Reverse = Annotated[bool, typer.Option("--reverse", help="The newest first.")]
Batch = Annotated[str, typer.Option("--batch", help="Slices per commit: a number, auto or off.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; store and run nothing.")]
Name = Annotated[str | None, typer.Option("--name", help="A name of your own.")]
SomeEffects = Annotated[Effects, typer.Option("--effects", help="Whether effects are sent for what is published.")]
Restate = Annotated[bool, typer.Option("--restate", help="Compute published slices again, too.")]
Downstream = Annotated[bool, typer.Option("--with-downstream", help="Also the tasks that read them, in order.")]
StreamOutput = Annotated[Stream, output_option("text, json at the end, or jsonl as it goes.")]
BackfillName = Annotated[str, typer.Argument(metavar="NAME", help="A backfill's name.")]


class DefaultToStart(TyperGroup):
    """`twice backfill TASK …` starts one; the other words are about those there are."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["start", *args]
        return super().resolve_command(ctx, args)


@boundary
def start(
    task: TaskName,
    first: First,
    last: Last,
    only: Only = None,
    parallel: Parallel = 1,
    reverse: Reverse = False,
    batch: Batch = "auto",
    dry_run: DryRun = False,
    name: Name = None,
    effects: SomeEffects = Effects.silent,
    restate: Restate = False,
    downstream: Downstream = False,
    output: StreamOutput = Stream.text,
    where: Where = HERE,
) -> int:
    """Compute and publish the slices of a range (the word start may be left out).

    The plan is made once, stored and carried out exactly; a second start of the same backfill resumes it.
    """
    from twice.project import backfill as backfills

    chosen = parse_only(only or ("missing,failed,stale,published" if restate else "missing,failed"))
    silent = effects is Effects.silent
    request = BackfillRequest(task, first, last, chosen, reverse, parse_batch(batch), restate, silent, downstream)
    with where.open() as opened:
        if dry_run:
            return _show_plan(as_result(backfills.plan(opened, request, name)), output)
        record, plan = backfills.start(opened, request, name)
        if output is Stream.text:
            if plan is None:
                print(resumed_line(record))
            else:
                print_plan(as_result(plan), stored=True)
        return _work(opened, record, parallel, output)


@boundary
def show(
    name: BackfillName,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show one: its slices, why each is in it, what became of it."""
    from twice.project import backfill as backfills

    with where.open() as opened:
        result = backfills.show(opened, name)
        holders = backfills.holders(opened, name)
    if output is Format.json:
        print_json({"backfill": result_data(result), "workers": list(holders)})
        return 0
    print_whole(result, holders)
    return 0


@boundary
def list_(output: Output = Format.text, where: Where = HERE) -> int:
    """List them all."""
    from twice.project import backfill as backfills

    with where.open() as opened:
        found = [(record, len(backfills.holders(opened, record.name))) for record in backfills.records(opened)]
    if output is Format.json:
        print_json({"backfills": [record_data(record, holders) for record, holders in found]})
    elif not found:
        print(runnable("no backfill yet\nnext: twice backfill TASK --from DATE --to DATE --dry-run"))
    else:
        for record, holders in found:
            print(record_line(record, holders))
    return 0


@boundary
def pause(name: BackfillName, where: Where = HERE) -> int:
    """Begin no further batch; those at work finish."""
    return _stop(name, "pause", where)


@boundary
def cancel(name: BackfillName, where: Where = HERE) -> int:
    """Begin no further batch, for good. What is published stays."""
    return _stop(name, "cancel", where)


@boundary
def resume(
    name: BackfillName,
    parallel: Parallel = 1,
    output: StreamOutput = Stream.text,
    where: Where = HERE,
) -> int:
    """Go on with one: what is left, and what failed."""
    from twice.project import backfill as backfills

    with where.open() as opened:
        record = backfills.resume(opened, name)
        if output is Stream.text:
            print(resumed_line(record))
        return _work(opened, record, parallel, output)


@boundary
def worker(
    backfill: Annotated[str | None, typer.Option("--backfill", help="Only this one.")] = None,
    parallel: Parallel = 1,
    output: StreamOutput = Stream.text,
    where: Where = HERE,
) -> int:
    """Help with running backfills until nothing is left.

    Start as many as you like, on any host that shares the ledger and the tables.
    """
    from twice.project import backfill as backfills

    code = 0
    with where.open() as opened:
        found = (backfills.record(opened, backfill),) if backfill is not None else backfills.running(opened)
        if not found and output is Stream.text:
            print("no backfill is running")
        for record in found:
            code = max(code, _work(opened, record, parallel, output))
    return code


def _work(opened: OpenProject, record: BackfillRecord, parallel: int, output: Stream) -> int:
    from twice.cli.progress import JsonLines, Lines, Live, interruptible, print_line
    from twice.project import backfill as backfills
    from twice.runtime.backfill.worker import Stop

    stop = Stop.never()
    backfills.ready(opened)
    with interruptible(stop):
        if output is Stream.text and sys.stdout.isatty():
            with Live(lambda: backfills.progress(opened, record.name)) as live:
                after = backfills.work(opened, record.name, live, stop, parallel)
        else:
            on_event = Lines(record) if output is Stream.text else JsonLines() if output is Stream.jsonl else _quiet
            after = backfills.work(opened, record.name, on_event, stop, parallel)
    result = backfills.show(opened, record.name)
    if output is Stream.json:
        print_json({"backfill": result_data(result)})
    elif output is Stream.jsonl:
        print_line({"event": "end", **record_data(after, len(backfills.holders(opened, record.name)))})
    else:
        print_end(result)
    if stop() and not result.complete:
        return 130
    return 1 if result.failed else 0


def _quiet(_: object) -> None:
    """All is printed at the end."""


def _stop(name: str, verb: str, where: Where) -> int:
    from twice.project import backfill as backfills

    with where.open() as opened:
        record = backfills.pause(opened, name) if verb == "pause" else backfills.cancel(opened, name)
    print(f"backfill {name}: {record.state.value}, {counted_of(record.done, record.total, 'slice')} done")
    print(runnable(f"next: twice backfill resume {name}"))
    return 0


def _show_plan(plan: BackfillResult, output: Stream) -> int:
    if output is Stream.text:
        print_plan(plan, stored=False)
    else:
        print_json({"plan": {**result_data(plan), "left_out": dict(plan.left_out)}})
    return 0
