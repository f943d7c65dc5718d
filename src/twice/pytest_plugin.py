"""For pytest: the fixture `twice_prove`, the marker and the options of the same name.

    def test_revenue_may_run_twice(twice_prove):
        twice_prove("revenue_daily", date="2026-06-09")

Loaded by every pytest where twice is installed, so nothing heavy is imported before a proof is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from twice.core.results.proof import Proof
    from twice.core.task import Task
    from twice.wiring.open_project import OpenProject

    Prove = Callable[..., Proof]

MARK = "twice_prove"
_PROOFS = pytest.StashKey["list[Proof]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("twice", "proving that tasks may run twice")
    group.addoption(
        "--twice-project", metavar="FOLDER", help="the project to prove; where pytest was started if not given"
    )
    group.addoption("--twice-profile", metavar="NAME", help="its profile")
    group.addoption(
        "--twice-scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="play only this scenario, in every test; may be given several times",
    )
    group.addoption(
        "--twice-report", metavar="DIR", help="write proof.json, proof.html and junit.xml of all proofs there"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(scenarios): proves a task; which scenarios it plays by default")
    config.stash[_PROOFS] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who asks for the fixture carries the mark, so that `-m "not twice_prove"` leaves all of them out."""
    for item in items:
        if MARK in getattr(item, "fixturenames", ()) and item.get_closest_marker(MARK) is None:
            item.add_marker(MARK)


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder, proofs = session.config.getoption("--twice-report"), session.config.stash[_PROOFS]
    if folder and proofs:
        from twice.proof.report import write_report

        write_report(proofs, Path(folder))


@pytest.fixture(scope="session")
def twice_project(pytestconfig: pytest.Config) -> Iterator[OpenProject]:
    """The project with the tasks to prove. Its Spark session is the one already running, if there is one."""
    from twice.wiring.open_project import open_project

    folder = pytestconfig.getoption("--twice-project") or pytestconfig.invocation_params.dir
    with open_project(Path(folder), pytestconfig.getoption("--twice-profile")) as opened:
        yield opened


@pytest.fixture
def twice_prove(request: pytest.FixtureRequest, twice_project: OpenProject) -> Prove:
    """`twice_prove(task, date=…, scenarios=…)`: play the scenarios with one slice of a task of the project, in a
    scratch copy, and fail the test if its table or its effects are not those of one clean run. Gives the proof."""
    from twice.core.hints import Hints
    from twice.errors import TwiceError
    from twice.project.prove import prove as prove_task
    from twice.project.task_argument import declared_as

    config = request.config

    def prove(task: Task | str, date: str | None = None, scenarios: Sequence[str] = ()) -> Proof:
        __tracebackhide__ = True
        chosen = config.getoption("--twice-scenario") or scenarios or _of_marker(request.node)
        try:
            proof = prove_task(twice_project, declared_as(twice_project, task), date, chosen)
        except TwiceError as error:
            error.reword(Hints().in_python)
            raise
        config.stash[_PROOFS].append(proof)
        if not proof.holds:
            pytest.fail(_describe(proof), pytrace=False)
        return proof

    return prove


def _of_marker(node: Any) -> Sequence[str]:
    marker = node.get_closest_marker(MARK)
    return () if marker is None else marker.kwargs.get("scenarios", marker.args)


def _describe(proof: Proof) -> str:
    from twice.proof.report import describe_difference

    where = f"{proof.task}[{proof.label}]"
    if proof.refused and not proof.changed:
        return f"{where}: twice run refuses its plan\n" + "\n".join(proof.refused)
    if not proof.changed:
        return f"{where}: no scenario could be played\n" + "\n".join(f"{t.scenario}: {t.reason}" for t in proof.trials)
    return f"{where} may not run twice\n" + "\n\n".join(describe_difference(trial) for trial in proof.changed)
