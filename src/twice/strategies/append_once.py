"""append_once: rows without a key are added, once. The token alone tells whether they are there, so what is
published stays: a second run appends nothing."""

from __future__ import annotations

from dataclasses import dataclass

from twice.core.scope import Scope
from twice.core.slice import Slice
from twice.core.task import Policy
from twice.core.time_scope import TimeScope
from twice.core.write import AppendRows, Layout
from twice.errors import DeclarationError


@dataclass(frozen=True)
class AppendOnce:
    name = "append_once"
    restatable = False

    def check(self, scope: Scope, policy: Policy) -> None:
        if policy.rerun == "always":
            raise DeclarationError(
                'append_once() knows no rerun="always": each run would add its rows again',
                fix="Leave out rerun=, or use replace() or merge(key).",
            )
        if isinstance(scope, TimeScope) and scope.lookback:
            raise DeclarationError(
                f"lookback={scope.lookback} does earlier slices again, and what append_once() published stays",
                fix="Leave out lookback=, or use replace() or merge(key).",
            )

    def layout(self, scope: Scope) -> Layout:  # noqa: ARG002 - the scope cuts the inputs alone
        return Layout(any_partitions=True)

    def compile(self, slices: tuple[Slice, ...]) -> AppendRows:
        return AppendRows(slices)


def append_once() -> AppendOnce:
    """Append the result's rows once per slice. A published slice stays as it is, and cannot be restated."""
    return AppendOnce()
