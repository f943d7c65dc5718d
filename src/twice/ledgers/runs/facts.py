"""What an attempt has learnt, merged into what is on record of it; and what published slices were computed from."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from twice.core.ledger.record import (
    ACCEPTED,
    NOTHING_AFTER,
    RECIPE,
    TABLE,
    AcceptedSlice,
    AttemptState,
    Facts,
    InputRecord,
    Pinned,
    SliceRecord,
)
from twice.ledgers.database.outage import retrying_outages
from twice.ledgers.database.own_rows import OF_FENCE, OF_TASK, OwnRows
from twice.ledgers.database.parts import in_parts
from twice.ledgers.database.schema import attempts, audits, inputs, runs, slices
from twice.ledgers.database.transactions import Records
from twice.ledgers.runs.code_parts import keep_parts
from twice.ledgers.runs.history import input_record

_FORGET_INPUTS = delete(inputs).where(inputs.c.fence == OF_FENCE)
_FORGET_AUDITS = delete(audits).where(audits.c.fence == OF_FENCE)
_ADD_INPUTS, _ADD_AUDITS = insert(inputs), insert(audits)
_NOTES_AND_SECONDS = select(attempts.c.notes, attempts.c.seconds).where(attempts.c.fence == OF_FENCE)
_LEARN_OF_ATTEMPT = update(attempts).where(attempts.c.fence == OF_FENCE)
_EXPECTED = select(slices.c.label, slices.c.expected).where(slices.c.fence == OF_FENCE)

_CONFIRMED = (TABLE, RECIPE, NOTHING_AFTER)
"""Kinds of records of which the newest counts: of the publish, or of a later run that found it right."""

_CODE = bindparam("code", type_=Text)
_LEARN_OF_SLICE = (
    update(slices)
    .where(slices.c.fence == OF_FENCE, slices.c.label == bindparam("of"))
    .values(
        rows=func.coalesce(bindparam("counted", type_=BigInteger), slices.c.rows),
        fingerprint=func.coalesce(bindparam("hashed", type_=Text), slices.c.fingerprint),
        code_hash=func.coalesce(_CODE, slices.c.code_hash),
        # Code and inputs are one intention: they change together, also to inputs that cannot be versioned.
        inputs_hash=case((_CODE.is_(None), slices.c.inputs_hash), else_=bindparam("inputs", type_=Text)),
    )
)


def learn(connection: Connection, fence: int, facts: Facts) -> None:
    """Merge what an attempt has learnt into what is known of it. Nothing known is forgotten."""
    _learn_of_attempt(connection, fence, facts)
    _learn_of_slices(connection, fence, facts.slices)
    keep_parts(connection, fence, facts.code_parts)
    if facts.inputs:
        rows = [vars(record) | {"fence": fence, "position": position} for position, record in enumerate(facts.inputs)]
        connection.execute(_FORGET_INPUTS, {OF_FENCE.key: fence})
        connection.execute(_ADD_INPUTS, rows)
    if facts.audits:
        rows = [vars(result) | {"fence": fence, "position": position} for position, result in enumerate(facts.audits)]
        connection.execute(_FORGET_AUDITS, {OF_FENCE.key: fence})
        connection.execute(_ADD_AUDITS, rows)


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
        known = connection.execute(_NOTES_AND_SECONDS, {OF_FENCE.key: fence}).one()
        # A note is kept once, however often it is written.
        notes = dict.fromkeys([*json.loads(known.notes or "[]"), *facts.notes])
        values["notes"] = json.dumps(list(notes))
        values["seconds"] = json.dumps({**json.loads(known.seconds or "{}"), **facts.seconds})
    if values:
        connection.execute(_LEARN_OF_ATTEMPT, {OF_FENCE.key: fence} | values)


def _learn_of_slices(connection: Connection, fence: int, records: Sequence[SliceRecord]) -> None:
    if not records:
        return
    refuse_unknown(f"with fence {fence}", {record.label for record in records} - set(expected_of(connection, fence)))
    connection.execute(
        _LEARN_OF_SLICE,
        [
            {
                OF_FENCE.key: fence,
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
    rows = connection.execute(_EXPECTED, {OF_FENCE.key: fence})
    return {row.label: row.expected for row in rows}


def refuse_unknown(attempt: str, labels: set[str]) -> None:
    if labels:
        raise ValueError(f"attempt {attempt} has no slice {', '.join(sorted(labels))}")


class SqlInputs(Records):
    """See `core.ports.Inputs`."""

    @retrying_outages
    def inputs(self, task: str, labels: Sequence[str] | None = None) -> Mapping[str, tuple[InputRecord, ...]]:
        with self._reading() as connection:
            return read_inputs(connection, self._own, task, labels)

    @retrying_outages
    def accepted(self, task: str, table: str) -> Mapping[str, Pinned]:
        with self._reading() as connection:
            return read_acceptances(connection, self._own, task, table)

    @retrying_outages
    def pins(self, task: str, table: str) -> Mapping[str, Pinned]:
        with self._reading() as connection:
            return read_pins(connection, self._own, task, table)


def read_inputs(
    connection: Connection, own: OwnRows, task: str, labels: Sequence[str] | None = None
) -> dict[str, tuple[InputRecord, ...]]:
    """What each published slice of a task was computed from, by label. Later attempts that found nothing to do bring
    their pinned tables up to date (up to those versions the slice is known to be right), and its recipe."""
    found: dict[str, dict[tuple[str, str, int], InputRecord]] = defaultdict(dict)
    for row in _input_rows(connection, own, task, labels):
        position = -1 if row.kind in _CONFIRMED else row.position
        found[row.label][row.kind, row.name, position] = input_record(row)
    return {label: tuple(records.values()) for label, records in found.items()}


def read_pins(connection: Connection, own: OwnRows, task: str, table: str) -> dict[str, Pinned]:
    """Of the same, one table's."""
    pinned = (inputs.c.kind == TABLE, inputs.c.name == table, inputs.c.version.is_not(None))
    rows = _input_rows(connection, own, task, None, *pinned)
    return {row.label: Pinned(row.version, row.fence, row.identity) for row in rows}


def add_acceptances(connection: Connection, fence: int, task: str, what: Sequence[AcceptedSlice]) -> None:
    """What an attempt of a person's accepts: each slice as it is published now."""
    held = [{"fence": fence, "task": task, "label": each.label, "expected": each.generation} for each in what]
    connection.execute(insert(slices), held)
    records = [
        InputRecord(each.label, ACCEPTED, table, None, version)
        for each in what
        for table, version in each.versions.items()
    ]
    if records:
        connection.execute(
            _ADD_INPUTS, [vars(each) | {"fence": fence, "position": position} for position, each in enumerate(records)]
        )


def read_acceptances(connection: Connection, own: OwnRows, task: str, table: str) -> dict[str, Pinned]:
    """The newest of each slice, of the generation that it has now. Where it is on record who published that, only what
    was accepted after it: a mark that was set back may come to where it was."""
    person, publisher = attempts.alias("person"), attempts.alias("publisher")
    as_it_is = and_(
        *(slices.c[name] == runs.c[name] for name in ("task", "label")), slices.c.expected == runs.c.generation
    )
    found = (
        select(inputs.c.label, inputs.c.version, inputs.c.fence)
        .select_from(
            runs.join(slices, as_it_is)
            .join(person, and_(person.c.fence == slices.c.fence, person.c.kind == "accept"))
            .join(inputs, and_(inputs.c.fence == person.c.fence, inputs.c.label == runs.c.label))
            .outerjoin(publisher, publisher.c.id == runs.c.attempt)
        )
        .where(own.among(runs.c.task, task), inputs.c.kind == ACCEPTED, inputs.c.name == table)
        .where(or_(publisher.c.fence.is_(None), publisher.c.fence < person.c.fence))
        .order_by(inputs.c.fence)
    )
    return {row.label: Pinned(row.version, row.fence) for row in connection.execute(found)}


def _input_rows(
    connection: Connection, own: OwnRows, task: str, labels: Sequence[str] | None, *which: ColumnElement[bool]
) -> Iterator[Any]:
    """Of each slice those of the publishing attempt; then, oldest first, the tables and recipes of later ones that
    found nothing to do. Of a publish that was adopted the attempt is not on record: those that found it right say the
    same."""
    key = own.key(task)
    if labels is None:
        labels = connection.execute(_LABELS_OF_TASK, {OF_TASK.key: key}).scalars().all()
    shown, confirmed, found_right = (each.where(*which) for each in _INPUTS_OF_SLICES)
    # Always by label: a database that is asked for all at once begins with the whole history of the task.
    for some in in_parts(labels):
        chosen: dict[str, Any] = {OF_TASK.key: key, "of_any": some}
        yield from connection.execute(shown, chosen)
        yield from connection.execute(confirmed, chosen)
        adopted = connection.execute(_ADOPTED, chosen).scalars().all()
        if adopted:
            yield from connection.execute(found_right, chosen | {"of_any": adopted})


_LABELS_OF_TASK = select(runs.c.label).where(runs.c.task == OF_TASK).order_by(runs.c.label)
_OF_SLICES = (runs.c.task == OF_TASK, runs.c.label.in_(bindparam("of_any", expanding=True)))
_ADOPTED = select(runs.c.label).where(
    *_OF_SLICES, runs.c.published.is_(None), ~exists().where(attempts.c.id == runs.c.attempt)
)


def _inputs_of_slices() -> tuple[Select[Any], Select[Any], Select[Any]]:
    """Of the publishing attempts; of later ones that found them right; of those that found an adopted one right."""
    of_attempt = and_(inputs.c.fence == attempts.c.fence, inputs.c.label == runs.c.label)
    shown = select(inputs).select_from(runs.join(attempts, attempts.c.id == runs.c.attempt).join(inputs, of_attempt))
    later, publisher = attempts.alias("later"), attempts.alias("publisher")
    of_later = and_(inputs.c.fence == later.c.fence, inputs.c.label == runs.c.label)
    confirmed = select(inputs).select_from(
        runs.join(publisher, publisher.c.id == runs.c.attempt)
        .join(slices, and_(slices.c.task == runs.c.task, slices.c.label == runs.c.label))
        # Of the slices: PostgreSQL begins its walk down their index there, and SQLite in any case.
        .join(later, and_(later.c.fence == slices.c.fence, slices.c.fence > publisher.c.fence))
        .join(inputs, of_later)
    )
    # By code and inputs, not by generation: that may be the same in two tables of one name.
    of_slice = and_(*(slices.c[name] == runs.c[name] for name in ("task", "label", "code_hash", "inputs_hash")))
    found_right = select(inputs).select_from(
        runs.join(slices, of_slice).join(later, later.c.fence == slices.c.fence).join(inputs, of_later)
    )
    unchanged = later.c.state == AttemptState.UNCHANGED.value
    return (
        shown.where(*_OF_SLICES),
        confirmed.where(*_OF_SLICES, unchanged, inputs.c.kind.in_(_CONFIRMED)).order_by(inputs.c.fence),
        found_right.where(*_OF_SLICES, unchanged).order_by(inputs.c.fence, inputs.c.position),
    )


_INPUTS_OF_SLICES = _inputs_of_slices()
