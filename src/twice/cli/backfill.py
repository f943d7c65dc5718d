"""backfill and worker: many slices by one frozen plan."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from twice.cli.backfill_several import Several
from twice.cli.backfill_text import (
    print_plan,
    print_records,
    print_whole,
    record_data,
    result_data,
    resumed_line,
)
from twice.cli.backfill_work import Stream, work
from twice.cli.hints import runnable
from twice.cli.options import HERE, Format, Output, Where, boundary, output_option, print_json
from twice.cli.terminal import say
from twice.core.backfill.plan import BackfillRequest, parse_batch, parse_only
from twice.core.backfill.result import BackfillResult, as_result
from twice.core.project.selector import only_name
from twice.core.results.summary import counted_of
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.wiring.open_project import OpenProject


class Effects(str, Enum):
    silent = "silent"
    send = "send"


Tasks = Annotated[list[str] | None, typer.Argument(metavar="TASK", help="Tasks: name, name+, +name, tag:word.")]
Everything = Annotated[bool, typer.Option("--all", help="Every task whose work is cut by time, in order.")]
First = Annotated[str | None, typer.Option("--from", help="The first slice, e.g. 2026-01-01. --only stale needs none.")]
Last = Annotated[str | None, typer.Option("--to", help="The last slice, included.")]
Only = Annotated[str | None, typer.Option("--only", help="Of missing,failed,stale,published.  [missing,failed]")]
Parallel = Annotated[int, typer.Option("--parallel", help="How many batches at once in this process.", min=1, max=64)]
Reverse = Annotated[bool, typer.Option("--reverse", help="The newest first.")]
Batch = Annotated[str, typer.Option("--batch", help="Slices per commit: a number, auto or off.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; store and run nothing.")]
Name = Annotated[str | None, typer.Option("--name", help="A name for it.")]
SomeEffects = Annotated[Effects, typer.Option("--effects", help="Whether effects are sent for what is published.")]
Restate = Annotated[bool, typer.Option("--restate", help="Compute published slices again, too.")]
Downstream = Annotated[bool, typer.Option("--with-downstream", help="Also the tasks that read them, in order.")]
StreamOutput = Annotated[Stream, output_option("text, json at the end, or jsonl as it goes.")]
BackfillName = Annotated[str, typer.Argument(metavar="NAME", help="A backfill's name.")]


class DefaultToStart(TyperGroup):
    """`twice backfill TASK …` starts one; the other subcommands are about existing ones."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["start", *args]  # its options may come before its tasks
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["start", *args]
        return super().resolve_command(ctx, args)


@boundary
def start(
    tasks: Tasks = None,
    everything: Everything = False,
    first: First = None,
    last: Last = None,
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

    The plan is made once, stored and carried out exactly; a second start resumes it. Several tasks have a plan each.
    """
    from twice.project import backfill as backfills
    from twice.runtime.backfill.several import Range

    single = _the_one(tasks or (), everything, name, downstream)
    chosen = parse_only(only or ("missing,failed,stale,published" if restate else "missing,failed"))
    between, options = Range(first, last), (chosen, reverse, parse_batch(batch), restate)
    between.check(chosen)

    def make(task: str, first: str, last: str) -> BackfillRequest:
        return BackfillRequest(task, first, last, *options, effects is Effects.silent, downstream)

    with where.open() as opened:
        if single is None:
            several = Several(opened, backfills.requests_of(opened, tasks or (), between, make), parallel, output)
            return several.show() if dry_run else several.work()
        request = make(single, *backfills.ends_of(opened, single, between))
        if dry_run:
            return _show_plan(as_result(backfills.plan(opened, request, name)), output)
        return _start_one(opened, request, name, parallel, output)


def _the_one(selectors: Sequence[str], everything: bool, name: str | None, downstream: bool) -> str | None:
    """The one task that was named; None where there may be several."""
    if everything == bool(selectors):
        raise UsageError("backfill takes tasks, or --all", fix="twice backfill revenue_daily --from … --to …")
    single = only_name(selectors)
    if single is None and (name is not None or downstream):
        raise UsageError(
            f"{'--name' if name is not None else '--with-downstream'} is for one task",
            fix="Several tasks have a plan each, and each is made after those it reads from.",
        )
    return single


def _start_one(opened: OpenProject, request: BackfillRequest, name: str | None, parallel: int, output: Stream) -> int:
    from twice.project import backfill as backfills

    record, plan = backfills.start(opened, request, name)
    if output is Stream.text:
        if plan is None:
            say(resumed_line(record))
        else:
            print_plan(as_result(plan), stored=True)
    return work(opened, record, parallel, output)


@boundary
def show(
    name: BackfillName,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Show one: its slices, why each is in it, how each ended."""
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
    """List all backfills."""
    from twice.project import backfill as backfills

    with where.open() as opened:
        found = [(record, len(backfills.holders(opened, record.name))) for record in backfills.records(opened)]
    if output is Format.json:
        print_json({"backfills": [record_data(record, holders) for record, holders in found]})
    elif not found:
        say(runnable("no backfill yet\nnext: twice backfill TASK --from DATE --to DATE --dry-run"))
    else:
        print_records(found)
    return 0


@boundary
def pause(name: BackfillName, where: Where = HERE) -> int:
    """Start no further batch; those that are running finish."""
    return _stop(name, "pause", where)


@boundary
def cancel(name: BackfillName, where: Where = HERE) -> int:
    """Start no further batch, for good. What is published stays."""
    return _stop(name, "cancel", where)


@boundary
def resume(
    name: BackfillName,
    parallel: Parallel = 1,
    output: StreamOutput = Stream.text,
    where: Where = HERE,
) -> int:
    """Continue one: what is left, and what failed."""
    from twice.project import backfill as backfills

    with where.open() as opened:
        record = backfills.resume(opened, name)
        if output is Stream.text:
            say(resumed_line(record))
        return work(opened, record, parallel, output)


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
            say("no backfill is running")
        for record in found:
            code = max(code, work(opened, record, parallel, output))
    return code


def _stop(name: str, verb: str, where: Where) -> int:
    from twice.project import backfill as backfills

    with where.open() as opened:
        record = backfills.pause(opened, name) if verb == "pause" else backfills.cancel(opened, name)
    say(f"backfill {name}: {record.state.value}, {counted_of(record.done, record.total, 'slice')} done")
    say(runnable(f"next: twice backfill resume {name}"))
    return 0


def _show_plan(plan: BackfillResult, output: Stream) -> int:
    if output is Stream.text:
        print_plan(plan, stored=False)
        say("next: the same command without --dry-run" if plan.slices else "next: nothing to do")
    else:
        print_json({"plan": {**result_data(plan), "left_out": dict(plan.left_out)}})
    return 0
