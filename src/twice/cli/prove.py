"""prove: play scenarios with a task in a scratch copy, and say whether its table is that of one clean run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twice.cli.display import current_display
from twice.cli.hints import runnable
from twice.cli.options import HERE, Date, Format, Output, Where, boundary, print_error, print_json
from twice.cli.terminal import Symbol, say, say_table
from twice.core.results.proof import Proof, document
from twice.errors import TwiceError, UsageError

if TYPE_CHECKING:
    from twice.core.project.project import Project

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[TASK]", help="A task's name; with --script, its arguments after --.")
]
ScriptPath = Annotated[Path | None, typer.Option("--script", help="A PySpark script that does not use twice.")]
Tables = Annotated[list[str] | None, typer.Option("--table", help="With --script: a table that it writes.")]
Warehouse = Annotated[Path, typer.Option("--warehouse", help="With --script: the folder of its tables, copied.")]
Everything = Annotated[bool, typer.Option("--all", help="Every task, with its slice of that date.")]
Wanted = Annotated[
    list[str] | None, typer.Option("--scenario", "-s", help="Only this one; may be given several times.")
]
Kill = Annotated[bool, typer.Option("--kill", help="Also really kill it: processes of their own, ended by SIGKILL.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="A folder for proof.html, proof.json and junit.xml.", file_okay=False)
]


@boundary
def prove(
    words: Words = None,
    everything: Everything = False,
    date: Date = None,
    scenario: Wanted = None,
    kill: Kill = False,
    script: ScriptPath = None,
    table: Tables = None,
    warehouse: Warehouse = Path("warehouse"),
    report: Report = None,
    output: Output = Format.text,
    where: Where = HERE,
) -> int:
    """Run a task twice, crash it, shuffle it: is its table the same?

    In a scratch copy and a process that is closed in: no table, file or service of yours is touched, and what else
    the code tries than to make its result is named. Exit 1 if anything differs.
    """
    if script is not None:
        if everything or date is not None or scenario or kill:
            raise UsageError(
                "--script takes no --all, --date, --scenario or --kill: it has two scenarios of its own",
                fix="Leave them out; what the script takes goes after --.",
            )
        from twice.project.prove import prove_script

        proof = prove_script(script, words or (), table or (), warehouse, current_display())
        if output is Format.text:
            print_proof(proof)
        return print_ends(Ends((proof,)), report, output)
    if len(words or ()) != (0 if everything else 1):
        raise UsageError("prove takes a task, or --all", fix="twice prove revenue_daily --date 2026-06-09")
    ends = _tasks(words or [], date, _asked(scenario, kill), output, where)
    return print_ends(ends, report, output)


def _asked(scenarios: list[str] | None, kill: bool) -> Sequence[str]:
    """--kill adds to what was asked for, or to what is played by default."""
    if not kill and not scenarios:
        return ()
    from twice.proof.tasks.prove import chosen_scenarios

    chosen = chosen_scenarios(scenarios or ())  # before a process is started for nothing
    return [*chosen, "kill"] if kill else scenarios or ()


@dataclass(frozen=True)
class Ends:
    """How the command went: the proofs, what failed, and the tasks that have nothing to do with its date, with why."""

    proofs: Sequence[Proof]
    errors: Sequence[TwiceError] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def _tasks(names: list[str], date: str | None, scenarios: Sequence[str], output: Format, where: Where) -> Ends:
    """The one task, or all of them; each is printed as soon as it is proved. Of all, one that fails does not stop the
    others."""
    from twice.project.prove import prove as prove_task

    proofs: list[Proof] = []
    errors: list[TwiceError] = []
    with where.open() as opened:
        dates, left_out = (dict.fromkeys(names, date), {}) if names else dates_of_all(opened.project, date)
        for name in names or [each.name for each in opened.project.in_order() if each.name in dates]:
            try:
                proofs.append(prove_task(opened, name, dates[name], scenarios))
            except TwiceError as error:
                if names:
                    raise
                errors.append(error.at(name))
                if output is Format.text:
                    print_error(error, as_json=False, debug=False)
                continue
            if output is Format.text:
                print_proof(proofs[-1])
    return Ends(proofs, errors, left_out)


def dates_of_all(project: Project, date: str | None) -> tuple[Mapping[str, str | None], Mapping[str, str]]:
    """With --all one date serves every scope, as for `run --all`: of the hours of a day, the first. A task that begins
    later is left out, with the reason."""
    from twice.core.time_scope import TimeScope
    from twice.runtime.run.run_many import of_date

    slices, left_out = of_date(project, date)
    timed = {name for name in slices if isinstance(project.task(name).scope, TimeScope)}
    return {name: each[0].label if name in timed else None for name, each in slices.items()}, left_out


def print_ends(ends: Ends, report: Path | None, output: Format) -> int:
    """Write the report, print the end, give the exit code: 1 if something differs, is refused or failed, or nothing was
    shown."""
    if report is not None:
        from twice.proof.report import write_report

        write_report(ends.proofs, report)
    holding = sum(proof.holds for proof in ends.proofs)
    broken = [proof for proof in ends.proofs if proof.changed or proof.refused]
    if output is Format.json:
        errors = [error.details() for error in ends.errors]
        print_json({"proofs": document(ends.proofs)["proofs"], "errors": errors, "left_out": dict(ends.left_out)})
    else:
        for name, why in ends.left_out.items():
            say(f"{name}: left out, because {why}", Symbol.SAME)
        left = f", {len(ends.left_out)} left out" if ends.left_out else ""
        if broken or ends.errors:
            say("next: fix the errors above, then prove it again", Symbol.FAILED)
        else:
            mark = Symbol.DONE if holding else Symbol.NOTICE
            say(f"proved: {holding} of {len(ends.proofs)}{left}; {runnable('next: twice status')}", mark)
    return 1 if broken or ends.errors or not holding else 0


def print_proof(proof: Proof) -> None:
    from twice.proof.report import describe_difference  # here: jinja2 is not needed for help

    mark = Symbol.DONE if proof.holds else Symbol.FAILED if proof.changed or proof.refused else Symbol.NOTICE
    say(f"{proof.task}[{proof.label}], code {proof.code_hash[:8]}, {proof.seconds:.1f} s", mark)
    rows: list[tuple[str, ...]] = [(t.scenario, t.result.value, f"{t.seconds:.1f} s", t.reason) for t in proof.trials]
    say_table(("scenario", "table", "took", "what was done"), rows)
    for trial in proof.changed:
        say(describe_difference(trial))
    for what in proof.refused:
        say(f"twice run refuses this plan: {what}")
    for note in proof.notes:
        say(f"note: {note}")
    for one in proof.not_blocked:
        say(f"not blocked: {one}")
