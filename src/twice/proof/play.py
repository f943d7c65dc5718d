"""One scenario, played: chosen by its name, carried out, and turned into a trial. The same for tasks and for jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twice.core.ports.clock import SYSTEM_CLOCK
from twice.core.results.proof import Difference, Scenario, Trial, TrialResult, played
from twice.errors import UsageError


class NotApplicable(Exception):
    """This proof or scenario shows nothing about this task. Its message is the reason."""


@dataclass(frozen=True)
class Observation:
    """What was done, in words, and the first difference that showed."""

    reason: str
    difference: Difference | None = None


def choose(plays: Mapping[str, tuple[Scenario, object]], names: Sequence[str], of: str = "") -> list[str]:
    """These scenarios, in the order they are played; the default ones if no name is given."""
    unknown = [name for name in names if name not in plays]
    if unknown:
        raise UsageError(f"there is no scenario {unknown[0]!r}{of}", fix=f"Known: {', '.join(plays)}.")
    return [name for name, (scenario, _) in plays.items() if (name in names if names else scenario.default)]


def trial(name: str, play: Callable[[], Observation]) -> Trial:
    began = SYSTEM_CLOCK.monotonic()
    try:
        seen = play()
    except NotApplicable as error:
        return Trial(name, TrialResult.NOT_APPLICABLE, str(error), seconds=SYSTEM_CLOCK.monotonic() - began)
    return played(name, seen.reason, seen.difference, SYSTEM_CLOCK.monotonic() - began)
