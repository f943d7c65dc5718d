"""`twice`: every command, and nothing heavy on the way to its help."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from twice.cli import (
    backfill,
    effects,
    environments,
    graph,
    ledger,
    lint,
    new_project,
    prove,
    rebuild,
    records,
    runs,
    setup,
    upkeep,
    warm,
)
from twice.cli.display import Display, display_on
from twice.cli.options import BETWEEN_ATTEMPTS
from twice.cli.terminal import Symbol, say
from twice.core.version import __version__

app = typer.Typer(
    name="twice",
    help="Make Spark pipelines safe to run again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's help costs a quarter of a second to import
    context_settings={"help_option_names": ["-h", "--help"]},
)
backfill_app = typer.Typer(
    cls=backfill.DefaultToStart,
    help="Compute many slices by one stored plan: twice backfill TASK --from DATE --to DATE.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
mark_app = typer.Typer(help="How far an incremental task has read.", no_args_is_help=True, rich_markup_mode=None)
ledger_app = typer.Typer(help="Maintain the ledger.", no_args_is_help=True, rich_markup_mode=None)
config_app = typer.Typer(help="Show the configuration.", no_args_is_help=True, rich_markup_mode=None)
warm_app = typer.Typer(
    cls=warm.Started, help="Keep Spark ready, for commands that answer at once: twice warm.", rich_markup_mode=None
)
effects_app = typer.Typer(help="What is sent after a publish.", no_args_is_help=True, rich_markup_mode=None)

app.command("init")(new_project.init)
app.command("run")(runs.run)
app.command("restate")(runs.restate)
app.command("retry")(runs.retry)
app.add_typer(backfill_app, name="backfill")
backfill_app.command("start")(backfill.start)
backfill_app.command("list")(backfill.list_)
backfill_app.command("show")(backfill.show)
backfill_app.command("pause")(backfill.pause)
backfill_app.command("resume")(backfill.resume)
backfill_app.command("cancel")(backfill.cancel)
app.command("worker")(backfill.worker)
app.command("plan")(runs.plan)
app.command("prove")(prove.prove)
app.command("graph")(graph.graph)
app.command("status")(records.status)
app.command("history")(records.history)
app.command("lint")(lint.lint)
app.command("recover")(upkeep.recover)
app.command("gc")(upkeep.gc)
app.command("doctor")(setup.doctor)
app.add_typer(warm_app, name="warm")
warm_app.command("start")(warm.start)
warm_app.command("status")(warm.status)
warm_app.command("stop")(warm.stop)
app.command("takeover")(upkeep.takeover)
app.command("accept")(upkeep.accept)
app.command("rebuild")(rebuild.rebuild)
app.command("adopt")(upkeep.adopt)
app.add_typer(mark_app, name="mark")
mark_app.command("show")(upkeep.show_mark)
mark_app.command("reset")(upkeep.reset_mark)
app.add_typer(ledger_app, name="ledger")
ledger_app.command("migrate")(ledger.migrate)
ledger_app.command("check")(ledger.check)
ledger_app.command("rebuild")(ledger.rebuild_ledger)
ledger_app.command("export")(ledger.export)
ledger_app.command("unassigned")(ledger.unassigned)
ledger_app.command("prune")(ledger.prune)
ledger_app.command("environments")(environments.environments)
ledger_app.command("drop-environment")(environments.drop_environment)
app.add_typer(config_app, name="config")
config_app.command("show")(setup.show_config)
app.add_typer(effects_app, name="effects")
effects_app.command("list")(effects.list_)
effects_app.command("show")(effects.show)
effects_app.command("send")(effects.send)
effects_app.command("resolve")(effects.resolve)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"twice {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


def main() -> None:
    """The console script. Interrupted by a person: exit 130, whatever was under way."""
    try:
        app(prog_name="twice")
    except KeyboardInterrupt:
        say(BETWEEN_ATTEMPTS, Symbol.NOTICE, stream=sys.stderr)
        sys.exit(130)
    finally:
        _end_spark()


def _end_spark() -> None:
    """Its JVM takes a moment to end, and the very first one much longer: a person sees why nothing happens. Ctrl-C does
    not wait for it; the command has ended by now, and its exit code stays."""
    if getattr(getattr(sys.modules.get("pyspark.sql"), "SparkSession", None), "_instantiatedSession", None) is None:
        return
    from twice.engine.session.session import close_running

    display = Display(sys.stderr, display_on(sys.stderr, quiet=not {"-q", "--quiet"}.isdisjoint(sys.argv)))
    with suppress(KeyboardInterrupt, Exception), display.open():
        close_running(display)
