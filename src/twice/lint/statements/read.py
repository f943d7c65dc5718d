"""SQL text to facts: the one entry both front-ends use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from twice.lint.facts import Place, ReadFact, TxnFact, WriteFact
from twice.lint.gather import Gathering
from twice.lint.statements.mask import HOLE, mask
from twice.lint.statements.orders import orders_in
from twice.lint.statements.parse import guess, parse
from twice.lint.statements.position import Site
from twice.lint.statements.scan import scan
from twice.lint.statements.script import Statement, split
from twice.lint.statements.tree import is_clock, name_of
from twice.lint.statements.values import (
    HoleUse,
    clock_variable,
    clocks_in,
    hole_uses,
    ids_in,
    variables_in,
)
from twice.lint.statements.writes import WriteReader

_BOUNDARY = re.compile(r"^(begin|start|commit|rollback|end)(\s+(tran|transaction|work)\b[^;]*)?$", re.I)


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


def read_text(
    text: str, site: Site, gathering: Gathering, *, dialect: str = "", templated: bool = True, depth: int = 0
) -> ReadText:
    """Adds the facts of every statement; a transaction in the text (BEGIN … COMMIT) is carried to its writes."""
    masked = mask(text, templated=templated)
    dialect = dialect or guess(masked)
    outcome = ReadText()
    reader = WriteReader()
    variables: dict[str, tuple[str, Place]] = {}
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
        declared = clock_variable(statement.text)
        if declared is not None:
            name, word, at = declared
            variables[name] = (word.upper(), here.place(at, at + len(word)))
            continue
        body = _procedure(statement.text)
        if body is not None and depth == 0:
            start, end, unit = body
            inner = replace(here.at(start), unit=unit, transaction=unit if dialect in ("postgres", "") else "")
            inside = read_text(statement.text[start:end], inner, gathering, dialect=dialect, templated=False, depth=1)
            outcome.writes.extend(inside.writes)
            continue
        if depth:
            statement = _bare(statement)
            here = replace(site.at(statement.offset), transaction=transaction, order=here.order)
            place = here.place(0, min(len(statement.text), 60))
        _one(statement, here, place, gathering, dialect, reader, outcome, variables)
    return outcome


_PROCEDURE = re.compile(r"create\s+(?:or\s+(?:replace|alter)\s+)?(?:procedure|proc|function)\s+([\w.\[\]\"`]+)", re.I)
_DOLLARS = re.compile(r"\$(\w*)\$(.*)\$\1\$", re.S)
_AS = re.compile(r"\b(?:as|begin)\b(?:\s+begin\b)?", re.I)
_CONTROL = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:(?:begin|else|then|loop|atomic|set\s+nocount\s+on"
    r"|declare\b[^;]*?(?=\bbegin\b)|if\b[^;]{0,300}?\bthen\b|exception\s+when\b[^;]{0,80}?\bthen\b)\s+)+",
    re.I | re.S,
)


def _procedure(text: str) -> tuple[int, int, str] | None:
    """Where the body of a procedure is in its CREATE statement, and the procedure's name."""
    head = _PROCEDURE.match(text)
    if head is None:
        return None
    dollars = _DOLLARS.search(text)
    if dollars:
        return dollars.start(2), dollars.end(2), f"procedure {head[1]}"
    start = _AS.search(text, head.end())
    return (start.end(), len(text), f"procedure {head[1]}") if start else None


def _bare(statement: Statement) -> Statement:
    """A statement of a procedure without the control words in front of it."""
    control = _CONTROL.match(statement.text)
    skip = control.end() if control else 0
    return Statement(statement.text[skip:], statement.offset + skip)


def _one(
    statement: Statement, site: Site, place: Place, gathering: Gathering, dialect: str, reader: WriteReader,
    outcome: ReadText, variables: dict[str, tuple[str, Place]],
) -> None:  # fmt: skip
    tree = parse(statement.text, dialect)
    if tree is None:
        facts = scan(statement.text, place, site.engine)
        if not facts and _is_query(statement.text):
            outcome.unread.append(statement.offset)
    else:
        nodes = tuple(tree.walk())
        reader.site = site
        facts = reader.read(tree, place, site.engine, statement.text)
        gathering.add(*clocks_in(tree, nodes, site, statement.text))
        if variables:
            gathering.add(*variables_in(tree, variables))
        gathering.add(*ids_in(tree, nodes, site, statement.text))
        gathering.add(*orders_in(tree, nodes, site, statement.text))
        for use in hole_uses(tree) if HOLE in statement.text else ():
            outcome.holes.append(replace(use, offset=use.offset + statement.offset))
        _latest(nodes, site, gathering)
        outcome.reads.extend(name_of(node) for node in nodes if isinstance(node, exp.Table))
        outcome.filtered = outcome.filtered or any(isinstance(node, exp.Where) for node in nodes)
    gathering.add(*facts)
    outcome.writes.extend(fact for fact in facts if isinstance(fact, WriteFact))


def _latest(nodes: Sequence[exp.Expr], site: Site, gathering: Gathering) -> None:
    """``WHERE dt = (SELECT max(dt) FROM source)``: whatever is newest when the query runs."""
    for test in nodes:
        if not isinstance(test, (exp.EQ, exp.In)):
            continue
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
