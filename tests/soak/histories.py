"""Random histories on real tables against the model, with a result file: part of `make soak`.

    python -m tests.soak.histories delta --rounds 200 --seed 1 [--minutes 30]
    python -m tests.soak.histories postgres --rounds 500

It can be stopped and started again, and stops by itself where the JVM or the server died. The result goes to
docs/proof/histories-delta.json or histories-postgres.json.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.postgres_server import PostgresServer
from tests.proof.histories.delta_warehouses import delta_warehouses
from tests.proof.histories.game import Warehouses
from tests.proof.histories.play import play
from tests.proof.histories.postgres_warehouses import PostgresWarehouses
from tests.proof.histories.steps import AtCall, AtPoint, Run, Step, steps
from tests.soak.long_run import LongRun

from twice.engine.session.session import close, embedded
from twice.engine.session.spark_conf import SessionSettings

AT_ONCE = 10
"""So many histories are drawn from one seed; then the state is kept."""


@dataclass(frozen=True)
class Place:
    """Where histories are played. `check` raises once nothing can be played there any more: the JVM or the server,
    whose name is `on`, has died."""

    on: str
    warehouses: Callable[[], AbstractContextManager[Warehouses]]
    check: Callable[[], object]


@contextmanager
def on_delta() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="twice-histories-") as folder:
        spark = embedded(SessionSettings(Path(folder) / "spark", Path(folder) / "warehouse"))
        yield Place("the JVM", lambda: delta_warehouses(spark), lambda: spark.range(1).count())
        close(spark)


@contextmanager
def on_postgres() -> Iterator[Place]:
    server = PostgresServer.start()

    @contextmanager
    def warehouses() -> Iterator[Warehouses]:
        urls = [server.fresh_database() for _ in range(3)]
        with tempfile.TemporaryDirectory() as folder:
            opened = PostgresWarehouses(urls[0], urls[1:], Path(folder))
            yield opened
            opened.close()

    try:
        yield Place("the PostgreSQL server", warehouses, lambda: server.execute("SELECT 1"))
    finally:
        server.remove()


TARGETS = {"delta": on_delta, "postgres": on_postgres}


def soak(run: LongRun, rounds: int, place: Place) -> str | None:
    """What it had to stop for, if it had to: what was played until then is saved, and the next call goes on."""
    while run.counts["histories"] < rounds and run.goes_on:
        drawn = f"{run.seed} {run.counts['histories']}"
        died = _some(run, min(AT_ONCE, rounds - run.counts["histories"]), drawn, place)
        run.save()
        if died is not None:
            return (
                f"stopped after {run.counts['histories']} of {rounds} histories: {place.on} died, in a history that is "
                f"not counted.\nWhat was played until then is kept: the same command goes on from there.\n{died}"
            )
    return None


def _some(run: LongRun, rounds: int, drawn: str, place: Place) -> str | None:
    """The error and the history that were the last, if nothing can be played any more."""
    died: list[str] = []

    @seed(drawn)
    @settings(
        max_examples=rounds,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(history=steps())
    def one(history: list[Step]) -> None:
        if died:
            return
        try:
            with place.warehouses() as warehouses:
                play(warehouses, history)
        except Exception as error:  # noqa: BLE001 - a violation never stops the soak
            violation = f"{type(error).__name__}: {error}: {history}"
            if _is_gone(place):
                died.append(violation)
                return
            run.violations.append(violation)
        _count(run, history)

    one()
    return died[0] if died else None


def _is_gone(place: Place) -> bool:
    try:
        place.check()
    except Exception:  # noqa: BLE001 - py4j raises what it likes when its JVM dies
        return True
    return False


def _count(run: LongRun, history: list[Step]) -> None:
    run.counts["histories"] += 1
    run.counts["steps"] += len(history)
    for step in history:
        if not isinstance(step, Run):
            run.counts[type(step).__name__] += 1
        elif isinstance(step.death, AtPoint):
            run.counts[f"runs ended by {step.death.how.value}"] += 1
        elif isinstance(step.death, AtCall):
            run.counts["runs ended by Ctrl-C at any moment"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--rounds", type=int, default=200)
    name = f"histories-{next((word for word in sys.argv[1:] if word in TARGETS), '')}"
    run, options = LongRun.from_arguments(parser, name)
    with TARGETS[options.target]() as place:
        stopped = soak(run, options.rounds, place)
    code = run.end(
        f"random histories on {options.target} against a model: two warehouses on one ledger, runs that end in four "
        "ways, late and withdrawn rows, ties, restatements, foreign deletes, a moved initial, marks that are reset, "
        "columns behind a failing audit, scopes that are cut differently, tables that are taken over",
    )
    if stopped is not None:
        print(stopped, file=sys.stderr)
    return 1 if stopped is not None else code


if __name__ == "__main__":
    sys.exit(main())
