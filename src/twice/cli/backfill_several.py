"""backfill of several tasks: one plan after another, in the order of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twice.cli.backfill_text import print_plan, result_data, resumed_line
from twice.cli.backfill_work import Stream, carry_out
from twice.cli.options import print_error, print_json
from twice.cli.terminal import Symbol, say
from twice.core.backfill.plan import BackfillRequest
from twice.core.backfill.result import BackfillResult, as_result
from twice.core.failure.interruption import exit_code_of
from twice.core.results.summary import counted_of
from twice.errors import EnvironmentProblem, Interrupted, TwiceError

if TYPE_CHECKING:
    from twice.runtime.backfill.several import Requests
    from twice.runtime.backfill.worker import Stop
    from twice.wiring.open_project import OpenProject

LATER = "note: what these plans make stale in tasks below is found when the turn of those comes"


@dataclass(frozen=True)
class _End:
    """How the backfill of one task ended. `waits_for`: the task above that is not complete, so it was not begun;
    without a result, an error or any of these there was nothing to do."""

    task: str
    result: BackfillResult | None = None
    waits_for: str | None = None
    left_out: str | None = None
    error: TwiceError | None = None
    code: int = 0

    def to_data(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "backfill": result_data(self.result) if self.result else None,
            "waits_for": self.waits_for,
            "left_out": self.left_out,
            "error": self.error.details() if self.error else None,
        }


@dataclass
class Several:
    """Some backfills in turn, and how each ended so far."""

    opened: OpenProject
    requests: Requests
    parallel: int
    output: Stream
    ends: dict[str, _End] = field(default_factory=dict)

    def show(self) -> int:
        """Every plan as it would be now; nothing is stored."""
        from twice.project import backfill as backfills

        plans = [as_result(backfills.plan(self.opened, request, None)) for request in self.requests.each]
        if self.output is not Stream.text:
            shown = [{**result_data(plan), "left_out": dict(plan.left_out)} for plan in plans]
            print_json({"plans": shown, "left_out": dict(self.requests.left_out)})
            return 0
        self._print_left_out()
        for plan in plans:
            if plan.slices or plan.left_out or plan.notes:
                print_plan(plan, stored=False)
            else:
                say(f"{plan.request.task}: nothing to do", Symbol.SAME)
        todo = any(plan.slices for plan in plans)
        if todo:
            say(f"  {LATER}")
        say("next: the same command without --dry-run" if todo else "next: nothing to do")
        return 0

    def work(self) -> int:
        """The worst exit code. A task that reads from one that is not complete is not begun: it would be computed from
        rows that are missing or old."""
        from twice.runtime.backfill.worker import Stop

        stop = Stop.never()
        if self.output is Stream.text:
            self._print_left_out()
        try:
            for request in self.requests.each:
                if stop():
                    break
                self._tell(self._end_of(request, stop))
        except (TwiceError, KeyboardInterrupt) as ended:
            if self.output is not Stream.json:
                raise
            error = ended.error if isinstance(ended, Interrupted) else ended if isinstance(ended, TwiceError) else None
            print_json({"tasks": self._ends_data(), "error": error.details() if error else None})
            return exit_code_of(ended) if isinstance(ended, KeyboardInterrupt) else ended.exit_code
        if self.output is Stream.json:
            print_json({"tasks": self._ends_data()})
        elif self.output is Stream.text:
            good = sum(end.code == 0 for end in self.ends.values())
            asked = len(self.requests.each)
            left = len(self.requests.left_out)
            also = f", {left} left out: see above" if left else ""
            say(f"{counted_of(good, asked, 'task')} done{also}", Symbol.DONE if good == asked else Symbol.FAILED)
        unfinished = stop() and len(self.ends) < len(self.requests.each)
        return max([130 if unfinished else 0, *(end.code for end in self.ends.values())])

    def _ends_data(self) -> list[dict[str, Any]]:
        """As one document, also where an interrupt or an outage ends it."""
        left = [_End(task, left_out=why) for task, why in self.requests.left_out.items()]
        return [end.to_data() for end in (*self.ends.values(), *left)]

    def _end_of(self, request: BackfillRequest, stop: Stop) -> _End:
        project = self.opened.project
        above = [up.name for up in project.upstream(project.task(request.task)) if up.name in self.ends]
        broken = next((name for name in above if self.ends[name].code), None)
        if broken is not None:
            return _End(request.task, waits_for=broken, code=1)
        try:
            return self._carried_out(request, stop)
        except EnvironmentProblem:
            raise
        except TwiceError as error:
            return _End(request.task, error=error.at(request.task), code=error.exit_code)

    def _carried_out(self, request: BackfillRequest, stop: Stop) -> _End:
        from twice.project import backfill as backfills

        begun = backfills.start_if_any(self.opened, request)
        if begun is None:
            return _End(request.task)
        record, plan = begun
        if self.output is Stream.text:
            if plan is None:
                say(resumed_line(record))
            else:
                print_plan(as_result(plan), stored=True)
        worked = carry_out(self.opened, record, self.parallel, self.output, stop)
        return _End(request.task, worked.result, code=worked.code or int(not worked.result.complete))

    def _tell(self, end: _End) -> None:
        from twice.cli.progress import print_line

        self.ends[end.task] = end
        if self.output is Stream.jsonl and end.result is None:
            print_line({"event": "task", **end.to_data()})
        elif self.output is Stream.text:
            if end.error is not None:
                print_error(end.error, as_json=False, debug=False)
            elif end.waits_for is not None:
                say(f"{end.task}: not begun, because {end.waits_for} is not complete", Symbol.WAITING)
            elif end.result is None:
                say(f"{end.task}: nothing to do", Symbol.SAME)

    def _print_left_out(self) -> None:
        for task, why in self.requests.left_out.items():
            say(f"{task}: left out, because {why}", Symbol.SAME)
