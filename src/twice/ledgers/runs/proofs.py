"""Proofs: which code of a task was proved, when, and how it ended. The newest of each task counts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    func,
    insert,
    select,
)

from twice.core.results.proof import Proof, ProofRecord, document
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OwnRows
from twice.ledgers.database.schema import NAME, UtcTime, metadata
from twice.ledgers.database.transactions import Records

proofs = Table(
    "twice_proofs",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), autoincrement=True),
    Column("task", NAME, nullable=False),
    Column("label", NAME, nullable=False),
    Column("code_hash", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("holds", Boolean, nullable=False),
    Column("changed", Text, nullable=False),
    Column("document", Text, nullable=False),
    PrimaryKeyConstraint("id", name="twice_proofs_pk"),
    CheckConstraint("task <> '' AND code_hash <> ''", name="twice_proofs_named"),
    sqlite_autoincrement=True,
)
Index("twice_proofs_by_task", proofs.c.task, proofs.c.id)


class SqlProofs(Records):
    """The last proof of each task's code."""

    @retrying_outages
    def record_proof(self, proof: Proof) -> None:
        """Keep a proof with the code it is of. A second call keeps it twice, and the newest counts."""
        with self._writing() as connection:
            self._own.register(connection, [proof.task])
            _record(connection, self._own, proof)

    @retrying_outages
    def proofs(self) -> Mapping[str, ProofRecord]:
        """The last proof of each task, by task."""
        with self._reading() as connection:
            return _newest(connection, self._own)


def _record(connection: Connection, own: OwnRows, proof: Proof) -> None:
    """Keep a proof. The rows it shows side by side are the user's data: they stay out of the ledger."""
    (body,) = document([proof])["proofs"]
    for trial in body["trials"]:
        if trial["difference"] is not None:
            trial["difference"]["pairs"] = []
    connection.execute(
        insert(proofs).values(
            task=own.key(proof.task),
            label=proof.label,
            code_hash=proof.code_hash,
            at=proof.at,
            holds=proof.holds,
            changed=json.dumps([trial.scenario for trial in proof.changed]),
            document=json.dumps(body),
        )
    )


def _newest(connection: Connection, own: OwnRows) -> Mapping[str, ProofRecord]:
    """The last proof of each task, by task."""
    last = select(func.max(proofs.c.id)).where(own.of(proofs.c.task, None)).group_by(proofs.c.task)
    rows = connection.execute(select(proofs).where(proofs.c.id.in_(last)).order_by(proofs.c.task))
    return {
        (name := own.owner.task_of(row.task)): ProofRecord(
            name,
            row.label,
            row.code_hash,
            row.at,
            row.holds,
            tuple(json.loads(row.changed)),
            tuple(json.loads(row.document).get("refused", ())),
        )
        for row in rows
    }
