"""SQL text to facts: the one entry both front-ends use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sqlglot import exp

from twice.lint.facts import Place, ReadFact, TxnFact, WriteFact
from twice.lint.gather import Gathering
from twice.lint.statements.mask import mask
from twice.lint.statements.orders import orders_in
from twice.lint.statements.parse import guess, parse
from twice.lint.statements.scan import scan
from twice.lint.statements.script import Statement, split
from twice.lint.statements.site import Site
from twice.lint.statements.tree import is_clock, name_of
from twice.lint.statements.values import HoleUse, clocks_in, hole_uses, ids_in
from twice.lint.statements.writes import WriteReader

_BOUNDARY = re.compile(r"^(begin|start)\s*(tran|transaction|work)?\b[^;]*$|^(commit|rollback|end)\b[^;]*$", re.I)


@dataclass
class ReadText:
    """What one SQL text held, besides the facts that were added."""

    statements: int = 0
    unread: list[int] = field(default_factory=list)
    """Offsets of statements that no dialect reads."""
    holes: list[HoleUse] = field(default_factory=list)
    writes: list[WriteFact] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    filtered: bool = False
    """Some SELECT has a WHERE."""


def read_text(text: str, site: Site, gathering: Gathering, *, dialect: str = "", templated: bool = True) -> ReadText:
    """Adds the facts of every statement. A transaction written in the text (BEGIN … COMMIT) is carried to its writes."""
    masked = mask(text, templated=templated)
    dialect = dialect or guess(masked)
    outcome = ReadText()
    reader = WriteReader()
    transaction = site.transaction
    for number, statement in enumerate(split(masked)):
        outcome.statements += 1
        boundary = _BOUNDARY.match(statement.text) if len(statement.text) < 60 else None
        here = replace(site.at(statement.offset), transaction=transaction, order=site.order and site.order + number)
        place = here.place(0, min(len(statement.text), 60))
        if boundary:
            opens = statement.text[:1].lower() in "bs"
            transaction = f"text:{place.span.line}:{number}" if opens else site.transaction
            gathering.add(TxnFact(place, "begin" if opens else "commit"))
            continue
        _one(statement, here, place, gathering, dialect, reader, outcome)
    return outcome


def _one(
    statement: Statement, site: Site, place: Place, gathering: Gathering, dialect: str, reader: WriteReader,
    outcome: ReadText,
) -> None:  # fmt: skip
    tree = parse(statement.text, dialect)
    if tree is None:
        facts = scan(statement.text, place, site.engine)
        if not facts and _is_query(statement.text):
            outcome.unread.append(statement.offset)
    else:
        facts = reader.read(tree, place, site.engine, statement.text)
        gathering.add(*clocks_in(tree, site, statement.text))
        gathering.add(*ids_in(tree, site, statement.text))
        gathering.add(*orders_in(tree, site, statement.text))
        for use in hole_uses(tree):
            outcome.holes.append(replace(use, offset=use.offset + statement.offset))
        _latest(tree, site, gathering)
        outcome.reads.extend(name_of(table) for table in tree.find_all(exp.Table))
        outcome.filtered = outcome.filtered or tree.find(exp.Where) is not None
    gathering.add(*facts)
    outcome.writes.extend(fact for fact in facts if isinstance(fact, WriteFact))


def _latest(tree: exp.Expr, site: Site, gathering: Gathering) -> None:
    """``WHERE dt = (SELECT max(dt) FROM source)``: whatever is newest when the query runs."""
    for test in tree.find_all(exp.EQ, exp.In):
        other = test.args.get("query") if isinstance(test, exp.In) else test.expression
        subquery = other.find(exp.Select) if isinstance(other, exp.Subquery) else None
        if subquery is None or not isinstance(
            subquery.expressions[0].unalias() if subquery.expressions else None, exp.Max
        ):
            continue
        if subquery.args.get("where") or test.find_ancestor(exp.Where) is None:
            continue
        start = test.find(exp.Identifier)
        offset = start.meta.get("start", 0) if start is not None else 0
        table = subquery.find(exp.Table)
        gathering.add(ReadFact(site.place(offset, offset + 10), site.engine, name_of(table), latest=True))


def _is_query(text: str) -> bool:
    return bool(re.match(r"(?i)\s*(select|with|insert|merge|update|delete|create|truncate|copy|drop)\b", text))


__all__ = ["ReadText", "is_clock", "read_text"]
