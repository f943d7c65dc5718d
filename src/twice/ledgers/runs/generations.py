"""Which generations of a slice attempts aimed at, and at which versions of the table they published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, func, select

from twice.core.ledger.record import AttemptState
from twice.ledgers.database.outage import outliving
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import attempts, runs, slices
from twice.ledgers.database.transactions import Records


class SqlGenerationHistory(Records):
    """See `core.ports.GenerationHistory`."""

    @outliving
    def frozen_aim(self, task: str, label: str, expected: int) -> int | None:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.expected == expected)
        chosen = select(slices.c.aim).where(*of_slice, slices.c.aim > expected).order_by(slices.c.fence).limit(1)
        with self._reading() as connection:
            return connection.execute(chosen).scalar_one_or_none()

    @outliving
    def furthest_aim(self, task: str, label: str, last: int) -> int | None:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.aim <= last)
        published = attempts.c.state == AttemptState.PUBLISHED.value
        chosen = select(func.max(slices.c.aim)).join(attempts, attempts.c.fence == slices.c.fence)
        with self._reading() as connection:
            return connection.execute(chosen.where(*of_slice, published)).scalar_one_or_none()

    @outliving
    def why_published(self, task: str, label: str, generation: int) -> tuple[str, ...]:
        of_slice = (self._own.of(slices.c.task, task), slices.c.label == label, slices.c.aim == generation)
        published = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.why.is_not(None))
        chosen = select(attempts.c.why).join(slices, slices.c.fence == attempts.c.fence).where(*of_slice, *published)
        with self._reading() as connection:
            return tuple(connection.execute(chosen.order_by(attempts.c.fence.desc())).scalars())

    @outliving
    def last_version(self, task: str) -> int | None:
        chosen = select(func.max(runs.c.version)).where(self._own.of(runs.c.task, task))
        with self._reading() as connection:
            return connection.execute(chosen).scalar_one_or_none()

    @outliving
    def publishers(self, task: str) -> dict[str, int]:
        joined = select(runs.c.label, attempts.c.fence).join(attempts, attempts.c.id == runs.c.attempt)
        of_task = joined.where(self._own.among(runs.c.task, task))
        with self._reading() as connection:
            return {row.label: row.fence for row in connection.execute(of_task)}

    @outliving
    def published_versions(self, task: str, labels: Sequence[str]) -> frozenset[int]:
        with self._reading() as connection:
            return frozenset(_published_versions(connection, self._own, task, labels))


def _published_versions(connection: Connection, own: OwnRows, task: str, labels: Sequence[str]) -> Iterator[int]:
    """Of every attempt that the ledger still has, and of publishes that it has adopted."""
    landed = (attempts.c.state == AttemptState.PUBLISHED.value, attempts.c.version.is_not(None))
    of_attempts = select(attempts.c.version).join(slices, slices.c.fence == attempts.c.fence).where(*landed)
    for some in in_parts(labels):
        yield from connection.execute(
            of_attempts.where(own.of(slices.c.task, task), slices.c.label.in_(some)).distinct()
        ).scalars()
        adopted = select(runs.c.version).where(own.of(runs.c.task, task), runs.c.version.is_not(None))
        yield from connection.execute(adopted.where(runs.c.label.in_(some))).scalars()
