"""What an attempt has learnt, merged into what is on record of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, bindparam, case, delete, func, insert, select, update

from twice.core.ledger.record import Facts, SliceRecord
from twice.ledgers.database.schema import attempts, audits, inputs, slices


def learn(connection: Connection, fence: int, facts: Facts) -> None:
    """Merge what an attempt has learnt into what is known of it. Nothing known is forgotten."""
    _learn_of_attempt(connection, fence, facts)
    _learn_of_slices(connection, fence, facts.slices)
    if facts.inputs:
        rows = [vars(record) | {"fence": fence, "position": position} for position, record in enumerate(facts.inputs)]
        connection.execute(delete(inputs).where(inputs.c.fence == fence))
        connection.execute(insert(inputs), rows)
    if facts.audits:
        rows = [vars(result) | {"fence": fence, "position": position} for position, result in enumerate(facts.audits)]
        connection.execute(delete(audits).where(audits.c.fence == fence))
        connection.execute(insert(audits), rows)


def _learn_of_attempt(connection: Connection, fence: int, facts: Facts) -> None:
    values: dict[str, Any] = {}
    if facts.why is not None:
        values["why"] = facts.why
    if facts.version is not None:
        values["version"] = facts.version
    if facts.changes is not None:
        values["changes"] = json.dumps(asdict(facts.changes))
    if facts.error is not None:
        values["error"] = json.dumps(dict(facts.error), sort_keys=True)
    if facts.notes or facts.seconds:
        known = connection.execute(select(attempts.c.notes, attempts.c.seconds).where(attempts.c.fence == fence)).one()
        # A note is kept once, however often it is written.
        notes = dict.fromkeys([*json.loads(known.notes or "[]"), *facts.notes])
        values["notes"] = json.dumps(list(notes))
        values["seconds"] = json.dumps({**json.loads(known.seconds or "{}"), **facts.seconds})
    if values:
        connection.execute(update(attempts).where(attempts.c.fence == fence).values(values))


def _learn_of_slices(connection: Connection, fence: int, records: Sequence[SliceRecord]) -> None:
    if not records:
        return
    refuse_unknown(f"with fence {fence}", {record.label for record in records} - set(expected_of(connection, fence)))
    code = bindparam("code", type_=Text)
    news = {
        "rows": func.coalesce(bindparam("counted", type_=BigInteger), slices.c.rows),
        "fingerprint": func.coalesce(bindparam("hashed", type_=Text), slices.c.fingerprint),
        "code_hash": func.coalesce(code, slices.c.code_hash),
        # Code and inputs are one intention: they change together, also to inputs that cannot be versioned.
        "inputs_hash": case((code.is_(None), slices.c.inputs_hash), else_=bindparam("inputs", type_=Text)),
    }
    connection.execute(
        update(slices).where(slices.c.fence == fence, slices.c.label == bindparam("of")).values(news),
        [
            {
                "of": record.label,
                "counted": record.rows,
                "hashed": record.fingerprint,
                "code": record.intention.code if record.intention else None,
                "inputs": record.intention.inputs if record.intention else None,
            }
            for record in records
        ],
    )


def expected_of(connection: Connection, fence: int) -> dict[str, int | None]:
    rows = connection.execute(select(slices.c.label, slices.c.expected).where(slices.c.fence == fence))
    return {row.label: row.expected for row in rows}


def refuse_unknown(attempt: str, labels: set[str]) -> None:
    if labels:
        raise ValueError(f"attempt {attempt} has no slice {', '.join(sorted(labels))}")
