"""`twice lint`: parse the options, call one function, render. Parsers and rules are loaded when it runs."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twice.cli.display import current_display
from twice.cli.options import boundary, output_option
from twice.cli.terminal import columns, on_terminal, say
from twice.core.results.summary import counted
from twice.errors import UsageError

if TYPE_CHECKING:
    from twice.lint.finding import LintResult
    from twice.lint.settings import LintSettings


class LintOutput(str, Enum):
    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"


class LintSeverity(str, Enum):
    info = "info"
    warning = "warning"
    error = "error"


@boundary
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders to read; the current folder by default.")
    ] = None,
    output: Annotated[LintOutput, output_option("How to report.")] = LintOutput.text,
    select: Annotated[
        list[str] | None, typer.Option(help="Codes or prefixes to run: TW3, TW301. May be repeated.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Codes or prefixes to leave out.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Also run the rules in preview.")] = False,
    min_severity: Annotated[LintSeverity | None, typer.Option(help="Leave out what is less severe.")] = None,
    baseline: Annotated[Path | None, typer.Option(help="Accepted findings; only others are reported.")] = None,
    write_baseline: Annotated[bool, typer.Option("--write-baseline", help="Accept all current findings.")] = False,
    explain: Annotated[str | None, typer.Option(help="Explain a rule, by code or name, and stop.")] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Count findings by rule instead of listing them.")
    ] = False,
    dialect: Annotated[str | None, typer.Option(help="SQL dialect; guessed for each file by default.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read every file again.")] = False,
) -> int:
    """Find what breaks on the second run, in code that does not use twice.

    Exit code 0: nothing of severity warning or error; 1: findings; 2: the command or a setting is wrong.
    """
    if explain is not None:
        return _explain(explain)
    given = {
        "select": tuple(_codes(select)),
        "ignore": tuple(_codes(ignore)),
        "preview": preview or None,
        "min_severity": min_severity.value if min_severity is not None else None,
        "dialect": dialect,
        "cache": False if no_cache else None,
    }
    settings = _settings(paths := paths or [Path()], given)
    current_display().begins("reading", ", ".join(str(path) for path in paths))
    if write_baseline:
        return _accept(paths, settings, baseline or Path("twice-lint-baseline.json"))
    how = "statistics" if statistics and output is LintOutput.text else output.value
    return _report(paths, settings, baseline, how)


def _codes(given: list[str] | None) -> list[str]:
    return [code.strip().upper() for item in given or () for code in item.split(",") if code.strip()]


def _explain(code: str) -> int:
    from twice.lint.rules import find
    from twice.lint.rules.page import page

    rule = find(code)
    if rule is None:
        raise UsageError(
            f"no rule {code!r}", fix="Rules are named TW101 … TW904; `twice lint --statistics` counts what was found."
        )
    typer.echo(page(rule))
    return 0


def _settings(paths: list[Path], given: dict[str, Any]) -> LintSettings:
    """Those of the first path's pyproject.toml or twice.toml, and over them what was given on the command line."""
    from twice.lint.rules import all_rules
    from twice.lint.settings import from_pyproject

    for code in (*given["select"], *given["ignore"]):
        if not any(rule.code.startswith(code) for rule in all_rules()) and not "TW001".startswith(code):
            raise UsageError(f"no rule begins with {code!r}", fix="Codes look like TW, TW3 or TW301.")
    start = paths[0]
    settings = from_pyproject(start if start.is_dir() else start.parent)
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value}
    settings = replace(settings, **chosen)
    return replace(settings, cache=False) if given["cache"] is False else settings


def _accept(paths: list[Path], settings: LintSettings, target: Path) -> int:
    from twice.lint import baseline as baselines
    from twice.lint.run import lint_paths

    accepted = counted(baselines.write(target, lint_paths(paths, settings).findings), "finding")
    say(f"Accepted {accepted} in {target}. Report only new ones with: twice lint --baseline {target}")
    return 0


def _report(paths: list[Path], settings: LintSettings, baseline: Path | None, form: str) -> int:
    from twice.lint.report import coloured, write
    from twice.lint.run import lint_paths

    result = lint_paths(paths, settings, baseline)
    if form == "statistics":
        say(_counted(result))
    elif form == "text" and on_terminal():
        say(coloured(result, columns(sys.stdout)).rstrip("\n"))
    else:
        write(result, sys.stdout, form)
    return result.exit_code


def _counted(result: LintResult) -> str:
    counts = Counter((finding.code, finding.name, finding.severity) for finding in result.findings)
    rows = [f"{count:6}  {code}  {severity:8} {name}" for (code, name, severity), count in counts.most_common()]
    families = ", ".join(f"{family} {count}" for family, count in result.by_family.items())
    end = f"{counted(len(result.findings), 'finding')} in {counted(result.files, 'file')} ({result.seconds:.1f} s)"
    return "\n".join([*rows, f"{end}: {families}" if families else end])
