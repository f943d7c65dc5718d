"""A project as an enclosed process opens it: its tables are read where they are, all else is in the scratch folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.config import Secret, Settings, load
from twice.core.task import TableName
from twice.errors import EnvironmentProblem
from twice.wiring.delta import delta_target
from twice.wiring.open_project import OpenProject

if TYPE_CHECKING:
    from twice.core.ports import Target
    from twice.engine.session.session import SessionSettings
    from twice.proof.enclosure.enclosure import Enclosure
    from twice.proof.tasks.scratch import ChildRun, ProofSetup

_THEIRS = (
    *("spark.master", "spark.sql.catalog", "spark.sql.warehouse.dir", "spark.hadoop.hive", "spark.sql.hive"),
    *("spark.local.dir", "spark.eventLog", "spark.checkpoint"),
)
"""Settings of the user's that lead to catalogs, folders and clusters of the user's."""
_PACKAGES = "spark.jars.packages"
_KEPT = "spark.sql.catalog.spark_catalog"
CHILD_RUN = "twice.wiring.child_run"
"""Started by its name: importing it here would close a ring, since it opens an enclosed project."""


class EnclosedProject(OpenProject):
    """`copies`: Delta copies of inputs that are no Delta tables, by the name of the table."""

    def __init__(self, settings: Settings, enclosure: Enclosure) -> None:
        super().__init__(settings)
        self.enclosure = enclosure
        self.copies: dict[str, str] = {}

    @classmethod
    def open(cls, root: Path, profile: str | None, enclosure: Enclosure) -> EnclosedProject:
        settings = load(root, profile)
        ledger = Secret(f"sqlite:///{_scratch(enclosure) / 'ledger.db'}", "the proof's own ledger")
        return cls(replace(settings, ledger=ledger), enclosure)

    def _start(self) -> Any:
        from twice.engine.session.session import base
        from twice.proof.enclosure.spark_writes import guard_writes

        assert self.enclosure.guard is not None
        guard_writes(self.enclosure.guard, catalog=False)
        spark = self.settings.spark
        wanted = session_settings(self.enclosure, spark.revealed(), short_jobs=spark.short_jobs, memory=spark.memory)
        return base(wanted)

    @cached_property
    def proof_setup(self) -> ProofSetup:
        from twice.proof.tasks.scratch import ProofSetup

        context = replace(self.context, target_of=self._target_of)
        delta = partial(delta_target, internal=self.settings.internal)
        sent = child_command(self.settings, self.copies)
        return ProofSetup(context, delta, self.targets.folder, sent, self.enclosure)

    def _target_of(self, table: TableName, session: Any) -> Target:
        from twice.proof.play import NotApplicable

        if self.targets.folder(table) is not None:
            return self.targets.of(table, session)
        copy = self.copies.get(str(table))
        if copy is None:
            raise NotApplicable(f"{table} is not a Delta table and no declared input, so a proof has no copy of it")
        return delta_target(session, lambda _: copy)


def child_command(settings: Settings, copies: Mapping[str, str]) -> Callable[[ChildRun], Sequence[str]]:
    """The command of the process that runs a task in a scratch copy (`child_run.main`)."""

    def command(child: ChildRun) -> Sequence[str]:
        point = child.point.value if child.point else ""
        arguments = (child.task, child.label, str(child.folder), point, json.dumps(dict(copies)))
        return [sys.executable, "-m", CHILD_RUN, str(settings.root), settings.profile or "", *arguments]

    return command


def plain_session(enclosure: Enclosure) -> Any:
    """For jobs and scripts: what a job writes by name goes to the scratch catalog."""
    from twice.engine.session.session import embedded, existing
    from twice.proof.enclosure.spark_writes import guard_writes

    found = existing()
    if found is not None:
        return found
    assert enclosure.guard is not None
    guard_writes(enclosure.guard, catalog=True)
    return embedded(session_settings(enclosure, {}, short_jobs=True))


def session_settings(
    enclosure: Enclosure, conf: Mapping[str, str], *, short_jobs: bool, memory: str | None = None
) -> SessionSettings:
    """Spark in this process alone, its catalog and all its folders in the scratch folder."""
    from twice.engine.session.session import SessionSettings

    if conf.get(_PACKAGES) and enclosure.guard is not None and enclosure.guard.network:
        raise EnvironmentProblem(
            f"{_PACKAGES} cannot be fetched in a proof: its process has no network",
            fix="Name the files in spark.jars; or, to be proved with less kept in: TWICE_PROOF_WITHOUT=network,files",
        )
    ours = {name: value for name, value in conf.items() if not name.startswith(_THEIRS) or name == _KEPT}
    folder = _scratch(enclosure)
    return SessionSettings(
        folder / "spark", folder / "catalog", short_jobs=short_jobs, memory=memory, archive="use", conf=ours
    )


def _scratch(enclosure: Enclosure) -> Path:
    assert enclosure.guard is not None, "only a process that a proof started is enclosed"
    return Path(enclosure.guard.scratch)
