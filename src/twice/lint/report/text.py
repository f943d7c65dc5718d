"""The report for people: findings by file, each with its source line, and a summary by family."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from twice.lint.finding import FAMILIES, RANK, Finding, LintResult, Severity

_COLOUR: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_WIDEST = 120
"""Characters of a source line that are shown; around the finding when the line is longer."""
BESIDE_SOURCE = 9
"""Columns of its line that a source line cannot use: its number, and the last one, in which some terminals wrap."""


def report(result: LintResult, *, statistics: bool = False, widest: int = _WIDEST) -> Text:
    """The whole report. `.plain` is what a pipe or a file gets."""
    out = Text()
    for path, findings in groupby(result.findings, key=lambda finding: finding.path):
        mine = list(findings)
        out.append(f"{path}", style="bold underline").append(f"  {_counts(mine)}\n\n")
        for finding in mine:
            out.append_text(_finding(finding, widest)).append("\n")
    for notice in result.notices:
        out.append(f"{notice.path}:{notice.line}: ").append("notice", style="magenta")
        out.append(f" {notice.message}\n")
    if result.notices:
        out.append("\n")
    if statistics and result.findings:
        out.append_text(_statistics(result)).append("\n")
    return out.append_text(_summary(result))


def _finding(finding: Finding, widest: int) -> Text:
    out = Text(f"{finding.path}:{finding.line}:{finding.column}: ")
    out.append(finding.severity, style=_COLOUR[finding.severity])
    out.append(f" {finding.code} {finding.name}", style="bold")
    out.append(f": {finding.message}\n")
    out.append_text(_excerpt(finding, widest))
    out.append_text(_labelled("fix", finding.fix, "green"))
    if finding.declaration:
        out.append_text(_labelled("twice", finding.declaration, "blue"))
    for related in finding.related:
        place = f"{related.path}:{related.line}:{related.column}"
        out.append_text(_labelled("see", f"{place} {related.message}", "dim"))
    return out


def _labelled(label: str, text: str, style: str) -> Text:
    """`label: text`, the lines after the first under the first."""
    lead = f"  {label}: "
    lines = text.splitlines() or [""]
    out = Text("  ").append(f"{label}:", style=style).append(f" {lines[0]}\n")
    for line in lines[1:]:
        out.append(f"{' ' * len(lead)}{line}\n")
    return out


def _excerpt(finding: Finding, widest: int) -> Text:
    """The source line and a caret under the columns of the finding, aligned also under tabs and wide letters."""
    if not finding.source_line.strip():
        return Text()
    line = finding.source_line.rstrip()
    start = min(max(finding.column - 1, 0), len(line))
    stop = finding.end_column - 1 if finding.end_line == finding.line else len(line)
    stop = min(max(stop, start + 1), max(len(line), start + 1))
    line, start, stop = _window(line, start, stop, widest)
    before = "".join("\t" if character == "\t" else " " * cell_len(character) for character in line[:start])
    number = str(finding.line).rjust(5)
    carets = "^" * max(cell_len(line[start:stop]), 1)
    out = Text().append(f"{number} | ", style="dim").append(f"{line}\n")
    if start >= len(line):
        return out
    return out.append("      | ", style="dim").append(before).append(f"{carets}\n", style=_COLOUR[finding.severity])


def _window(line: str, start: int, stop: int, widest: int) -> tuple[str, int, int]:
    if len(line) <= widest:
        return line, start, stop
    first = max(0, min(start - 20, len(line) - widest))
    shown = line[first : first + widest]
    return shown, start - first, min(stop - first, len(shown))


def _statistics(result: LintResult) -> Text:
    counts = Counter((finding.code, finding.name) for finding in result.findings)
    out = Text()
    for (code, name), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        out.append(f"{count:>5}  {code} {name}\n")
    return out


def _summary(result: LintResult) -> Text:
    read = _number(result.files, "file")
    aside = "".join(
        f", {count} {what}"
        for count, what in ((result.suppressed, "suppressed"), (result.baselined, "in the baseline"))
        if count
    )
    unread = f", {_number(len(result.notices), 'notice')}" if result.notices else ""
    if not result.findings:
        return Text(f"Nothing found in {read}{aside}{unread}.\n")
    touched = len({finding.path for finding in result.findings})
    out = Text(f"{_number(len(result.findings), 'finding')} in {touched} of {read}{aside}{unread}.\n", style="bold")
    codes = {family: code for code, family in FAMILIES.items()}
    for family in sorted(result.by_family, key=lambda name: codes[name]):
        mine = [finding for finding in result.findings if finding.family == family]
        out.append(f"  {codes[family]} {family:<14} {len(mine):>4}  {_counts(mine)}\n")
    return out


def _counts(findings: list[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    worst_first: list[Severity] = sorted(counts, key=lambda severity: -RANK[severity])
    return ", ".join(_number(counts[severity], severity) for severity in worst_first)


def _number(count: int, noun: str) -> str:
    plural = noun if count == 1 or noun == "info" else f"{noun}s"
    return f"{count} {plural}"
