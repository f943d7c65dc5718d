"""append_once: rows without a key are added, once. The token alone shows whether they are there, so what is
published stays: a second run appends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twice.core.closed import assert_never
from twice.core.scope import Scope, Whole
from twice.core.since import Since
from twice.core.slice import Slice
from twice.core.task import Policy, Strategy
from twice.core.time_scope import TimeScope
from twice.core.write import AppendRows, Layout, WriteKind
from twice.errors import DeclarationError


@dataclass(frozen=True)
class AppendOnce:
    name = "append_once"
    restatable = False
    kind: ClassVar[WriteKind] = "append"
    key: ClassVar[tuple[str, ...]] = ()
    newest_by: ClassVar[str | None] = None

    def check(self, scope: Scope, policy: Policy) -> None:
        if policy.rerun == "always":
            raise DeclarationError(
                'append_once() knows no rerun="always": each run would add its rows again',
                fix="Leave out rerun=, or use replace() or merge(key).",
            )
        match scope:
            case TimeScope():
                _check_no_lookback(scope)
            case Whole() | Since():
                pass
            case _:
                assert_never(scope)

    def layout(self, scope: Scope) -> Layout:  # noqa: ARG002 - the scope cuts the inputs alone
        return Layout(any_partitions=True)

    def compile(self, slices: tuple[Slice, ...]) -> AppendRows:
        return AppendRows(slices)


def _check_no_lookback(scope: TimeScope) -> None:
    if scope.lookback:
        raise DeclarationError(
            f"lookback={scope.lookback} does earlier slices again, and what append_once() published stays",
            fix="Leave out lookback=, or use replace() or merge(key).",
        )


def append_once() -> Strategy:
    """Append the result's rows once per slice. A published slice stays as it is, and cannot be restated."""
    return AppendOnce()
