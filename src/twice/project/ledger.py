"""Looking after the ledger of an opened project."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from twice.core.ledger.found import Unassigned
from twice.runtime.table.assign import names_of
from twice.runtime.upkeep import check as checking
from twice.runtime.upkeep import prune as pruning
from twice.runtime.upkeep import rebuild_ledger as rebuilding
from twice.runtime.upkeep.check import LedgerDifference
from twice.runtime.upkeep.prune import Tidied
from twice.runtime.upkeep.rebuild_ledger import RebuiltRecords
from twice.wiring.open_project import OpenProject


def migrate(opened: OpenProject) -> tuple[str | None, str]:
    """The schema's version before and after. Nothing but the ledger is opened: a task's file may be broken."""
    from twice.ledgers.ledger import Ledger

    opened.progress.begins("bringing the ledger up to date", opened.settings.project)
    return Ledger.migrate(opened.settings.ledger_url)


def check(opened: OpenProject) -> tuple[LedgerDifference, ...]:
    """Where the ledger and the tables differ."""
    return checking.check(opened.context, opened.context.engine.fresh())


def rebuild_ledger(opened: OpenProject) -> tuple[RebuiltRecords, ...]:
    """Rebuild a lost ledger from the tables."""
    return rebuilding.rebuild_ledger(opened.context, opened.context.engine.fresh())


def prune(opened: OpenProject, older_than: timedelta) -> Tidied:
    """Delete history that decides nothing any more."""
    pruning.refuse_young(older_than)  # before a session is started for nothing
    return pruning.prune(opened.context, opened.context.engine.fresh(), older_than)


def export(opened: OpenProject) -> Iterator[dict[str, Any]]:
    """Everything in it, row by row; the first row is the header."""
    return opened.ledger.export()


def unassigned(opened: OpenProject) -> tuple[Unassigned, ...]:
    """Old records that no table has shown to be its own."""
    return opened.ledger.unassigned.listed()


def tables_to_ask(opened: OpenProject) -> tuple[str, ...]:
    """The tasks with records from before the ledger knew owners, where the table was not asked yet which of them are
    its own. Every command that looks at tables asks them."""
    tasks = opened.project.tasks
    return opened.ledger.unassigned.waiting({name: names_of(task) for name, task in tasks.items()})


def take_unassigned(opened: OpenProject, task: str) -> None:
    """Give the rest of a task's old records to this environment, for good."""
    declared = opened.project.task(task)
    opened.context.ledger.unassigned.take_rest(declared.name, names_of(declared))  # the tables were asked first
