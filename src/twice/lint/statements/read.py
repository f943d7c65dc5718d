"""SQL text to facts: the one entry both front-ends use. A text is split into statements first: one bad statement must
not hide the others.
"""

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
from twice.lint.statements.position import SqlPosition
from twice.lint.statements.scan import scan
from twice.lint.statements.tree import is_clock, name_of
from twice.lint.statements.values import HoleUse, clock_variable, clocks_in, hole_uses, ids_in, variables_in
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
    text: str, position: SqlPosition, gathering: Gathering, *, dialect: str = "", templated: bool = True
) -> ReadText:
    """Adds the facts of every statement; a transaction in the text (BEGIN … COMMIT) is carried to its writes."""
    masked = mask(text, templated=templated)
    return _TextReader(gathering, dialect or guess(masked)).read(masked, position)


@dataclass
class _TextReader:
    """One text, statement by statement. `in_procedure`: it is the body of a procedure, and control words come first.
    `variables`: those that hold a clock's value."""

    gathering: Gathering
    dialect: str
    in_procedure: bool = False
    outcome: ReadText = field(default_factory=ReadText)
    writes: WriteReader = field(default_factory=WriteReader)
    variables: dict[str, tuple[str, Place]] = field(default_factory=dict)

    def read(self, masked: str, position: SqlPosition) -> ReadText:
        transaction = position.transaction
        for number, statement in enumerate(split(masked)):
            self.outcome.statements += 1
            here = replace(
                position.at(statement.offset), transaction=transaction, order=position.order and position.order + number
            )
            if len(statement.text) < 60 and _BOUNDARY.match(statement.text):
                opens = statement.text[:1].lower() in "bs"
                place = _start(statement, here)
                transaction = f"text:{place.span.line}:{number}" if opens else position.transaction
                self.gathering.add(TxnFact(place, "begin" if opens else "commit"))
            elif not self._declared(statement, here) and not self._procedure(statement, here):
                if self.in_procedure:
                    statement = _bare(statement)
                    here = replace(position.at(statement.offset), transaction=transaction, order=here.order)
                self._statement(statement, here)
        return self.outcome

    def _declared(self, statement: SqlStatement, position: SqlPosition) -> bool:
        declared = clock_variable(statement.text)
        if declared is not None:
            name, word, at = declared
            self.variables[name] = (word.upper(), position.place(at, at + len(word)))
        return declared is not None

    def _procedure(self, statement: SqlStatement, position: SqlPosition) -> bool:
        body = None if self.in_procedure else _procedure_body(statement.text)
        if body is not None:
            start, end, unit = body
            transaction = unit if self.dialect in ("postgres", "") else ""
            inner = replace(position.at(start), unit=unit, transaction=transaction)
            masked = mask(statement.text[start:end], templated=False)
            inside = _TextReader(self.gathering, self.dialect or guess(masked), in_procedure=True)
            self.outcome.writes.extend(inside.read(masked, inner).writes)
        return body is not None

    def _statement(self, statement: SqlStatement, position: SqlPosition) -> None:
        place = _start(statement, position)
        tree = parse(statement.text, self.dialect)
        if tree is None:
            facts = scan(statement.text, place, position.engine)
            if not facts and _is_query(statement.text):
                self.outcome.unread.append(statement.offset)
        else:
            self.writes.position = position
            facts = self.writes.read(tree, place, position.engine, statement.text)
            self._values(tree, statement, position)
        self.gathering.add(*facts)
        self.outcome.writes.extend(fact for fact in facts if isinstance(fact, WriteFact))

    def _values(self, tree: exp.Expr, statement: SqlStatement, position: SqlPosition) -> None:
        nodes = tuple(tree.walk())
        self.gathering.add(*clocks_in(tree, nodes, position, statement.text))
        if self.variables:
            self.gathering.add(*variables_in(tree, self.variables))
        self.gathering.add(*ids_in(tree, nodes, position, statement.text))
        self.gathering.add(*orders_in(tree, nodes, position, statement.text))
        for use in hole_uses(tree) if HOLE in statement.text else ():
            self.outcome.holes.append(replace(use, offset=use.offset + statement.offset))
        _latest(nodes, position, self.gathering)
        self.outcome.reads.extend(name_of(node) for node in nodes if isinstance(node, exp.Table))
        self.outcome.filtered = self.outcome.filtered or any(isinstance(node, exp.Where) for node in nodes)


def _start(statement: SqlStatement, position: SqlPosition) -> Place:
    return position.place(0, min(len(statement.text), 60))


_PROCEDURE = re.compile(r"create\s+(?:or\s+(?:replace|alter)\s+)?(?:procedure|proc|function)\s+([\w.\[\]\"`]+)", re.I)
_DOLLARS = re.compile(r"\$(\w*)\$(.*)\$\1\$", re.S)
_AS = re.compile(r"\b(?:as|begin)\b(?:\s+begin\b)?", re.I)
_CONTROL = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:(?:begin|else|then|loop|atomic|set\s+nocount\s+on"
    r"|declare\b[^;]*?(?=\bbegin\b)|if\b[^;]{0,300}?\bthen\b|exception\s+when\b[^;]{0,80}?\bthen\b)\s+)+",
    re.I | re.S,
)


def _procedure_body(text: str) -> tuple[int, int, str] | None:
    """Where the body of a procedure is in its CREATE statement, and the procedure's name."""
    head = _PROCEDURE.match(text)
    if head is None:
        return None
    dollars = _DOLLARS.search(text)
    if dollars:
        return dollars.start(2), dollars.end(2), f"procedure {head[1]}"
    start = _AS.search(text, head.end())
    return (start.end(), len(text), f"procedure {head[1]}") if start else None


def _bare(statement: SqlStatement) -> SqlStatement:
    """A statement of a procedure without the control words in front of it."""
    control = _CONTROL.match(statement.text)
    skip = control.end() if control else 0
    return SqlStatement(statement.text[skip:], statement.offset + skip)


def _latest(nodes: Sequence[exp.Expr], position: SqlPosition, gathering: Gathering) -> None:
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
        gathering.add(ReadFact(position.place(offset, offset + 10), position.engine, name_of(table), latest=True))


def _is_query(text: str) -> bool:
    return bool(re.match(r"(?i)\s*(select|with|insert|merge|update|delete|create|truncate|copy|drop)\b", text))


__all__ = ["ReadText", "is_clock", "read_text"]


_STOP = re.compile(r"--|/\*|'|\"|`|;|\$\w{0,20}\$|^[ \t]*GO[ \t]*$", re.MULTILINE | re.IGNORECASE)
_LEADING = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|#[^\n]*\n)+", re.DOTALL)
_KEEP = re.compile(r"(with|merge|explain|create\s+(or\s+\w+\s+)?(proc|func|trigger|event|rule|task))", re.I)
_HEAD = re.compile(
    r"^[ \t]*((?:insert\s+into|delete\s+from|truncate\s+table|drop\s+table|begin\s+tran\w*|commit|create\s+table"
    r"|update\s+[\w.\[\]]+\s+set|merge\s+into|copy\s+into|declare\s+@|set\s+@)\b)",
    re.I | re.M,
)
MOST = 2_000
"""Statements of one text; a dump with more is data."""


@dataclass(frozen=True)
class SqlStatement:
    text: str
    offset: int


def split(text: str) -> list[SqlStatement]:
    """Every statement with the offset of its first character; comments before it are left out."""
    found: list[SqlStatement] = []
    start = 0
    for semicolon, after in _ends(text):
        _take(found, text, start, semicolon)
        start = after
        if len(found) >= MOST:
            return found
    _take(found, text, start, len(text))
    return found


def _ends(text: str) -> list[tuple[int, int]]:
    """Where statements end and the next begins, quotes and comments skipped."""
    ends: list[tuple[int, int]] = []
    position = 0
    while True:
        stop = _STOP.search(text, position)
        if stop is None:
            return ends
        mark = stop[0]
        position = stop.end()
        if mark == ";" or mark.strip().upper() == "GO":
            ends.append((stop.start(), stop.end()))
            continue
        close = "\n" if mark == "--" else "*/" if mark == "/*" else mark
        end = text.find(close, position)
        # A quote that never closes is a stray character, not the end of all statements.
        if end >= 0:
            position = end + len(close)


def _take(found: list[SqlStatement], text: str, start: int, end: int) -> None:
    leading = _LEADING.match(text, start, end)
    if leading:
        start = leading.end()
    body = text[start:end].rstrip()
    if body:
        found.extend(SqlStatement(part, start + offset) for part, offset in _further(body))


def _further(body: str) -> list[tuple[str, int]]:
    """T-SQL needs no semicolons: a line that begins a new change begins a new statement."""
    if _KEEP.match(body):
        return [(body, 0)]
    starts = [0]
    for match in _HEAD.finditer(body):
        before = body[starts[-1] : match.start()]
        if match.start() > 0 and before.strip() and before.count("(") == before.count(")"):
            starts.append(match.start(1))
    ends = [*starts[1:], len(body)]
    return [(body[a:b].rstrip(), a) for a, b in zip(starts, ends, strict=True)]
