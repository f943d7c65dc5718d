"""Attempts in the ledger, from their claim to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, update

from twice.core.ledger.record import AcceptedSlice, AttemptState, Claim, Facts
from twice.core.table.token import Kind
from twice.ledgers.database.errors import problem
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import in_any_table
from twice.ledgers.database.schema import attempts, insert_or
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs import transitions
from twice.ledgers.runs.facts import add_acceptances
from twice.ledgers.runs.history import fence_of

_DISCARDED = (
    update(attempts).where(attempts.c.id == bindparam("named"), in_any_table(attempts.c.task)).values(discarded=True)
)


class SqlAttempts(Records):
    """See `core.ports.Attempts`."""

    @retrying_outages
    def fix(self, claim: Claim, expected: Mapping[str, int], aims: Mapping[str, int] | None = None) -> None:
        aimed = {label: generation + 1 for label, generation in expected.items()} | dict(aims or {})
        with self._writing() as connection:
            transitions.fix(connection, claim, expected, aimed)

    def advance(self, claim: Claim, before: AttemptState, after: AttemptState, facts: Facts = Facts()) -> None:  # noqa: B008
        step = transitions.AttemptStep(before, after, facts)

        def move(again: bool) -> None:
            with self._writing() as connection:
                now = self._time(connection)
                transitions.advance(connection, claim, step, now, again)

        self._outage.outlive(move)

    @retrying_outages
    def publish(self, attempt: str, facts: Facts, *, generations: Mapping[str, int]) -> None:
        with self._writing() as connection:
            fence = fence_of(connection, self._own, attempt)
            if fence is None:
                raise problem(
                    f"attempt {attempt} is not in this ledger: it was replaced, or its environment was dropped or "
                    "given a name, while the attempt ran. "
                    "The table holds what the attempt published",
                    self._engine.url,
                    "Run again: it will look at the table first.",
                )
            transitions.publish(connection, fence, facts, generations, self._time(connection))

    @retrying_outages
    def close_attempt(self, attempt: str, state: AttemptState, facts: Facts = Facts()) -> bool:  # noqa: B008
        with self._writing() as connection:
            fence = fence_of(connection, self._own, attempt)
            return fence is not None and transitions.close(connection, fence, state, facts, self._time(connection))

    @retrying_outages
    def abandon_unlooked(self, attempt: str) -> bool:
        with self._writing() as connection:
            fence = fence_of(connection, self._own, attempt)
            return fence is not None and transitions.abandon_unlooked(connection, fence, self._time(connection))

    @retrying_outages
    def discarded(self, attempt: str) -> None:
        with self._writing() as connection:
            connection.execute(_DISCARDED, self._own.any_table() | {"named": attempt})

    @retrying_outages
    def record_takeover(self, task: str, attempt: str, holder: str, why: str, kind: Kind = "takeover") -> None:
        """Dying here leaves it in the table alone, and the table's commit has the same."""
        with self._writing() as connection:
            ended = {"kind": kind, "state": AttemptState.PUBLISHED.value}
            self._record_ended(connection, task, {"id": attempt, "holder": holder, "why": why, **ended})

    @retrying_outages
    def record_acceptance(self, task: str, attempt: str, holder: str, why: str, what: Sequence[AcceptedSlice]) -> None:
        """Dying here has recorded all of it or nothing."""
        with self._writing() as connection:
            ended = {"kind": "accept", "state": AttemptState.UNCHANGED.value}
            given = {"id": attempt, "holder": holder, "why": why, **ended}
            fence = self._record_ended(connection, task, given)
            if fence is not None and what:
                add_acceptances(connection, fence, self._own.key(task), what)

    def _record_ended(self, connection: Connection, task: str, attempt: Mapping[str, str]) -> int | None:
        """An attempt that ends as it begins, and stages nothing. Its fence; None if it is on record already."""
        self._own.register(connection, [task])
        now = self._time(connection)
        values = {**attempt, "task": self._own.key(task), "started": now, "finished": now, "discarded": True}
        once = insert_or(connection, attempts).on_conflict_do_nothing(index_elements=[attempts.c.id])
        fence: int | None = connection.execute(once.returning(attempts.c.fence), values).scalar_one_or_none()
        return fence
