"""The registry: every module here named ``twNNN_…`` holds one rule."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from twice.lint.rules.rule import Case, Rule
from twice.lint.settings import LintSettings

__all__ = ["Case", "Rule", "all_rules", "chosen", "find"]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    found: list[Rule] = []
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("tw"):
            continue
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        found.extend(
            item()
            for item in vars(loaded).values()
            if isinstance(item, type) and issubclass(item, Rule) and item.__module__ == loaded.__name__
        )
    return tuple(sorted(found, key=lambda rule: rule.code))


def find(code_or_name: str) -> Rule | None:
    wanted = code_or_name.strip().lower()
    return next((rule for rule in all_rules() if wanted in (rule.code.lower(), rule.name)), None)


def chosen(settings: LintSettings) -> tuple[Rule, ...]:
    """The rules the settings ask for. One in preview runs when preview is on or its full code is selected."""
    return tuple(
        rule
        for rule in all_rules()
        if rule.code.startswith(settings.select)
        and not (settings.ignore and rule.code.startswith(settings.ignore))
        and (settings.preview or not rule.preview or rule.code in settings.select)
    )
