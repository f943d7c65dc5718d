"""A rule's documentation page, from its docstring and its cases."""

from __future__ import annotations

import inspect
import re

from twice.lint.rules.rule import Case, Rule

_TITLES = ("What it does", "Why it breaks a re-run", "When it is fine")


def page(rule: Rule) -> str:
    """Markdown; `docs/rules/` holds one for each rule and `--explain` prints it."""
    summary, sections = _parts(inspect.getdoc(rule) or "")
    stage = "preview (run with `--preview` or select it by its full code)" if rule.preview else "stable"
    head = [
        f"# {rule.code} {rule.name}",
        "",
        summary,
        "",
        f"Family: {rule.family}. Severity: {rule.severity}. Stage: {stage}.",
        "",
    ]
    body = []
    for title in _TITLES[:2]:
        body += [f"## {title}", "", sections.get(title, ""), ""]
    body += ["## Bad", "", *_cases(rule.BAD), "## Good", "", *_cases(rule.GOOD)]
    body += [f"## {_TITLES[2]}", "", sections.get(_TITLES[2], ""), ""]
    body += [
        "## Silence it",
        "",
        f"`# twice: ignore[{rule.code}] reason` on the line, or `-- twice: ignore[{rule.code}] reason` in SQL.",
        "",
    ]
    return "\n".join(head + body)


def index(rules: tuple[Rule, ...]) -> str:
    """The table of all rules, by family."""
    lines = ["# Rules of twice lint", "", "`twice lint --explain CODE` prints these pages."]
    family = ""
    for rule in rules:
        if rule.family != family:
            family = rule.family
            lines += [
                "",
                f"## {rule.code[:3]} {family}",
                "",
                "| code | name | severity | stage | finds |",
                "|---|---|---|---|---|",
            ]
        summary = _parts(inspect.getdoc(rule) or "")[0]
        stage = "preview" if rule.preview else "stable"
        lines.append(f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {stage} | {summary} |")
    return "\n".join([*lines, ""])


def _parts(text: str) -> tuple[str, dict[str, str]]:
    sections: dict[str, str] = {}
    summary, *rest = re.split(r"^(What it does|Why it breaks a re-run|When it is fine)$", text, flags=re.MULTILINE)
    for title, body in zip(rest[::2], rest[1::2], strict=False):
        sections[title] = " ".join(inspect.cleandoc(body).split())
    return " ".join(summary.split()), sections


def _cases(cases: tuple[Case, ...]) -> list[str]:
    lines: list[str] = []
    for case in cases:
        language = "sql" if case.path.endswith((".sql", ".hql")) else "python" if case.path.endswith(".py") else ""
        lines += [f"```{language}", case.code.rstrip("\n"), "```", ""]
    return lines
