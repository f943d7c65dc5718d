"""Every strategy is ended at every failpoint, in every way, and is run again, on real Delta and PostgreSQL: walks.py.
In memory: tests/runtime/run/test_every_strategy.py. Real kills: test_crash_on_delta.py, test_postgres_kills.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import PostgresServer
from tests.sample import sample

from twice.core.project.project import assemble
from twice.core.results.run import Outcome
from twice.core.scope import slice_named
from twice.errors import TableTaken
from twice.ledgers.ledger import Ledger
from twice.runtime.run.run_many import run_slices
from twice.runtime.upkeep.human_decision import HumanDecision
from twice.runtime.upkeep.takeover import take_over

from .histories.delta_warehouses import delta_warehouses
from .histories.postgres_warehouses import PostgresWarehouses
from .histories.project import project
from .histories.steps import DAILY, INCREMENTAL
from .tables import tokens
from .walks import AROUND_THE_COMMIT, ENDS, rows_of, walk_days, walk_windows

WALKS = pytest.mark.parametrize("walk", sample(ENDS, of=AROUND_THE_COMMIT))


@pytest.mark.timeout(600)
@WALKS
@pytest.mark.parametrize("task", sample(["daily", "merged", "inserted", "raw"], of=["merged"]))
def test_a_slice_that_ends_anywhere_and_is_run_again_is_written_once(spark: Any, task: str, walk: str) -> None:
    with delta_warehouses(spark) as warehouses:
        walk_days(warehouses, task, ENDS[walk])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_renamed_task_of_any_strategy_writes_nothing_until_formerly_names_it(spark: Any) -> None:
    with delta_warehouses(spark) as warehouses:
        warehouses.arrive(0, rows_of(0) + rows_of(1))
        label = rows_of(0)[0][1].isoformat()
        for name, declared in project().tasks.items():
            slices = (slice_named(declared.scope, None if name in INCREMENTAL else label),)
            run_slices(warehouses.context(0), declared, slices)
            rows, held = warehouses.rows(0, f"shop.{name}"), tokens(warehouses.folder / "dev/shop" / name)
            renamed = replace(declared, name=f"{name}_new")
            for project_id in ("p", "q"):  # a new name, and the new name in another project
                shop = replace(warehouses.context(0), project=assemble(project_id, [renamed]))
                with pytest.raises(TableTaken, match=f"published by the task {name}"):
                    run_slices(shop, renamed, slices)
            known = replace(renamed, formerly=(name,))
            shop = replace(warehouses.context(0), project=assemble("p", [known]))
            ledger = warehouses.context(0).ledger
            assert isinstance(ledger, Ledger)
            ledger.rename(name, known.name)
            (end,) = run_slices(shop, known, slices)
            assert end.outcome in (Outcome.ALREADY, Outcome.NOTHING_NEW), name
            assert (warehouses.rows(0, f"shop.{name}"), tokens(warehouses.folder / "dev/shop" / name)) == (rows, held)
        for path in (warehouses.folder / "dev/shop/raw/_delta_log").glob("*.crc"):
            path.unlink()  # Delta keeps no list of so many tokens beside a commit: a job over the log finds them
        raw = replace(project().tasks["raw"], name="r")
        shop = replace(warehouses.context(0), project=assemble("p", [raw]))
        slices = (slice_named(raw.scope, label),)
        with pytest.raises(TableTaken, match="1 slice that was published by the task raw"):
            run_slices(shop, raw, slices)
        assert take_over(shop, raw, HumanDecision("ana", "so")) == {"the task raw": 1}
        (end,) = run_slices(shop, raw, slices)
        assert (end.outcome, len(warehouses.rows(0, "shop.raw"))) == (Outcome.PUBLISHED, 3)
        assert warehouses.rows(0, "shop.raw").total() == 6


@pytest.mark.timeout(600)
@WALKS
@pytest.mark.parametrize("task", sample(["feed", "log"], of=["feed"]))
def test_an_incremental_load_that_ends_anywhere_loses_no_row_and_doubles_none(spark: Any, task: str, walk: str) -> None:
    with delta_warehouses(spark) as warehouses:
        walk_windows(warehouses, task, ENDS[walk])


@pytest.fixture
def postgres_warehouses(postgres: PostgresServer, tmp_path: Path) -> Iterator[PostgresWarehouses]:
    urls = [postgres.fresh_database() for _ in range(3)]
    made = PostgresWarehouses(urls[0], urls[1:], tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(600)
@WALKS
@pytest.mark.parametrize("task", [*DAILY, *INCREMENTAL])
def test_on_postgres_too_whatever_ends_where_and_is_run_again_is_written_once(
    postgres_warehouses: PostgresWarehouses, task: str, walk: str
) -> None:
    (walk_windows if task in INCREMENTAL else walk_days)(postgres_warehouses, task, ENDS[walk])
