"""Statements that change tables."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from twice.lint.facts import Guard, IdFact, MarkFact, MergeShape, Place, ReadFact, TxnFact, Verb, WriteFact
from twice.lint.gather import Fact
from twice.lint.statements.guards import (
    increments,
    is_after_mark,
    is_anti_join,
    is_unique_source,
    leaves_own_filter,
    looks_back,
    reading_target,
)
from twice.lint.statements.mask import shown
from twice.lint.statements.position import SqlPosition
from twice.lint.statements.tree import column_offset, keys_of, name_of, offset_of, tables_in
from twice.lint.vocabulary import is_log, is_mark, is_temporary, names_the_run

_STREAM = re.compile(r"\bMETADATA\$(ACTION|ISUPDATE)|\bfrom\s+[\w.]*_stream\b", re.IGNORECASE)
_OVER_MERGE = re.compile(r"\(\s*merge\s", re.IGNORECASE)


class WriteReader:
    """Reads the writing statements of one script, in order; remembers which tables it made itself."""

    def __init__(self) -> None:
        self.unique: dict[str, bool] = {}
        self.temporary: set[str] = set()
        self.position: SqlPosition | None = None

    def read(self, tree: exp.Expr, place: Place, engine: str, text: str = "") -> list[Fact]:
        if isinstance(tree, exp.Insert):
            facts = self._insert(tree, place, engine)
            if _STREAM.search(text):
                facts = [_shielded(fact) for fact in facts]  # reading a stream moves its offset in the same commit
            if _OVER_MERGE.search(text):
                # SQL Server's history idiom: the outer insert takes only what the inner MERGE reports as changed.
                facts = [_shielded(fact) for fact in facts]
            return facts
        if isinstance(tree, exp.Merge):
            return self._merge(tree, place, engine)
        if isinstance(tree, exp.Create):
            return self._create(tree, place, engine)
        if isinstance(tree, exp.Update):
            return self._update(tree, place, engine)
        if isinstance(tree, exp.Delete):
            where = tree.args.get("where")
            conditions = (_normal(where.this),) if where else ()
            return [self._write("delete", name_of(tree.this), place, engine, "DELETE", conditions=conditions)]
        if isinstance(tree, exp.TruncateTable):
            return [self._write("truncate", name_of(table), place, engine, "TRUNCATE") for table in tree.expressions]
        if isinstance(tree, exp.Drop):
            return self._drop(tree, place, engine)
        if isinstance(tree, exp.Copy):
            return self._copy(tree, place, engine, text)
        if isinstance(tree, exp.LoadData):
            verb: Verb = "overwrite" if tree.args.get("overwrite") else "copy"
            return [self._write(verb, name_of(tree.this), place, engine, "LOAD DATA")]
        if isinstance(tree, exp.Transaction):
            return [TxnFact(place, "begin")]
        if isinstance(tree, (exp.Commit, exp.Rollback)):
            return [TxnFact(place, "commit" if isinstance(tree, exp.Commit) else "rollback")]
        return []

    def _write(self, verb: Verb, target: str, place: Place, engine: str, call: str, **more: object) -> WriteFact:
        fact = WriteFact(place, verb, engine, target, call)
        fact = replace(fact, **more)  # type: ignore[arg-type]
        own: set[Guard] = set()
        if is_temporary(target) or target in self.temporary:
            own.add("temporary")
        if names_the_run(target):
            own.add("run_path")
        if is_log(target):
            own.add("log")
        return replace(fact, guards=fact.guards | frozenset(own))

    def _steps(self, steps: list[tuple[str, exp.Expr]]) -> dict[str, object]:
        if not steps:
            return {}
        start = offset_of(steps[0][1])
        at = (
            self.position.place(start, start + len(steps[0][0])).span
            if self.position is not None and start is not None
            else None
        )
        return {"increments": tuple(column for column, _ in steps), "increment_at": at}

    def _insert(self, tree: exp.Insert, place: Place, engine: str) -> list[Fact]:
        target = name_of(tree.this)
        source = tree.expression
        conflict = tree.args.get("conflict")
        more: dict[str, object] = {"reads": tables_in(source)}
        guards: set[Guard] = set()
        verb: Verb = "insert"
        call = "INSERT INTO"
        if tree.args.get("overwrite"):
            verb, call = "overwrite", "INSERT OVERWRITE"
            partition = _partition(tree)
            if partition is not None:
                more["partition_by"] = tuple(shown(column.name) for column in partition.find_all(exp.Column))
                if partition.find(exp.EQ):
                    guards.add("replace_where")
        elif tree.args.get("where"):
            verb, call = "overwrite", "INSERT … REPLACE WHERE"
            guards.add("replace_where")
        elif tree.args.get("ignore") or tree.args.get("alternative"):
            guards.add("conflict_clause")
            more["nothing_on_conflict"] = str(tree.args.get("alternative") or "ignore").lower() != "replace"
        elif conflict is not None:
            guards.add("conflict_clause")
            verb, more = self._conflict(tree, conflict, more)
            call = "INSERT … ON CONFLICT"
        if is_anti_join(source, target):
            guards.add("anti_join")
        facts: list[Fact] = []
        mark = is_after_mark(source, target)
        if mark is not None:
            if not looks_back(mark):
                guards.add("looked_first")
            start = offset_of(mark) or 0
            at = self.position.place(start, start + 10) if self.position is not None else place
            facts.append(ReadFact(at, engine, target, strict_mark=isinstance(mark, exp.GT) and not looks_back(mark)))
        if _only_literals(source):
            guards.add("constant_rows")
        write = self._write(verb, target, place, engine, call, guards=frozenset(guards), **more)
        facts.append(write)
        return facts + self._marks(target, tree, place)

    def _conflict(
        self, tree: exp.Insert, conflict: exp.Expr, more: dict[str, object]
    ) -> tuple[Verb, dict[str, object]]:
        assignments = conflict.expressions
        if not assignments:
            return "insert", {**more, "nothing_on_conflict": True}
        keys = tuple(
            column.name.lower()
            for key in conflict.args.get("conflict_keys") or ()
            for column in key.find_all(exp.Column)
        )
        values = isinstance(tree.expression, exp.Values)
        shape = MergeShape(
            source=" ".join(tables_in(tree.expression)),
            source_unique=True if values else is_unique_source(tree.expression, self._known(tree)),
            updates=True,
            versioned=conflict.args.get("where") is not None,
        )
        return "merge", {**more, "merge": shape, "key": keys, **self._steps(increments(assignments))}

    def _known(self, tree: exp.Expr) -> dict[str, bool]:
        """Which tables hold each key once, those that the statement itself names with WITH included."""
        known = dict(self.unique)
        for cte in tree.find_all(exp.CTE):
            known[cte.alias.lower()] = bool(is_unique_source(cte.this, self.unique))
        return known

    def _merge(self, tree: exp.Merge, place: Place, engine: str) -> list[Fact]:
        target = name_of(tree.this)
        known = self._known(tree)
        using = tree.args.get("using")
        whens = tree.args["whens"].expressions if tree.args.get("whens") else []
        updates = [when for when in whens if when.args.get("matched") and isinstance(when.args.get("then"), exp.Update)]
        alias = tree.this.alias_or_name.lower()
        own = [step for when in updates for step in increments(reading_target(when.args["then"].expressions, alias))]
        shape = MergeShape(
            source=name_of(using) or "a query",
            # ON FALSE compares nothing: it is how a slice is replaced in one statement.
            source_unique=True if _never(tree.args.get("on")) else is_unique_source(using, known),
            updates=bool(updates) or any(when.args.get("matched") for when in whens),
            versioned=bool(updates) and all(when.args.get("condition") is not None for when in updates),
            inserts=any(not when.args.get("matched") for when in whens),
        )
        key = (
            tuple(dict.fromkeys(c.name.lower() for c in tree.args["on"].find_all(exp.Column)))
            if tree.args.get("on")
            else ()
        )
        return [
            self._write(
                "merge", target, place, engine, "MERGE", guards=frozenset({"conflict_clause"}), merge=shape, key=key,
                **self._steps(own), nothing_on_conflict=not shape.updates, reads=tables_in(using),
            )
        ]  # fmt: skip

    def _create(self, tree: exp.Create, place: Place, engine: str) -> list[Fact]:
        target = name_of(tree.this)
        if str(tree.kind).upper() not in ("TABLE", "VIEW"):
            return []
        properties = tree.args.get("properties")
        guards: set[Guard] = set()
        if properties is not None and properties.find(exp.TemporaryProperty):
            self.temporary.add(target)
            guards.add("temporary")
        if str(tree.kind).upper() == "VIEW":
            self.unique[target] = bool(is_unique_source(tree.expression, self.unique))
            return []
        if tree.expression is not None:
            self.unique[target] = bool(is_unique_source(tree.expression, self.unique))
        # A plain CREATE fails on the second run instead of doubling rows; only IF NOT EXISTS lets old rows stay.
        if not tree.args.get("exists"):
            guards.add("fresh")
        key, sequence = keys_of(tree)
        facts: list[Fact] = [
            self._write("create", target, place, engine, "CREATE TABLE", guards=frozenset(guards), key=key,
                        reads=tables_in(tree.expression))
        ]  # fmt: skip
        if sequence and "temporary" not in guards:
            at = column_offset(tree, sequence[0])
            here = (
                self.position.place(at, at + len(sequence[0]))
                if self.position is not None and at is not None
                else place
            )
            facts.append(IdFact(here, sequence[1], "sequence", sequence[0], target, natural_key=bool(key)))
        return facts

    def _update(self, tree: exp.Update, place: Place, engine: str) -> list[Fact]:
        target = name_of(tree.this)
        where = tree.args.get("where")
        alias = tree.this.alias_or_name.lower() if isinstance(tree.this, exp.Table) else ""
        sets = tree.expressions
        guards: set[Guard] = set()
        if where is not None and leaves_own_filter(where, sets):
            guards.add("looked_first")
        write = self._write(
            "update", target, place, engine, "UPDATE",
            guards=frozenset(guards), **self._steps(increments(reading_target(sets, alias, tree))),
            conditions=(_normal(where.this),) if where else (),
        )  # fmt: skip
        return [write, *self._marks(target, tree, place)]

    def _drop(self, tree: exp.Drop, place: Place, engine: str) -> list[Fact]:
        if str(tree.args.get("kind")).upper() != "TABLE":
            return []
        tables = tree.args.get("tables") or [tree.this]
        return [self._write("drop", name_of(table), place, engine, "DROP TABLE") for table in tables]

    def _copy(self, tree: exp.Copy, place: Place, engine: str, text: str) -> list[Fact]:
        target = name_of(tree.this)
        if not tree.args.get("kind") or not target or target.startswith(("@", "s3:", "gs:", "azure:")):
            return []  # an unload: rows leave the database
        into = text[:40].upper().split()[:2] == ["COPY", "INTO"]
        options = " ".join(part.sql().upper() for part in tree.args.get("params") or ())
        forced = bool(re.search(r"FORCE['\"]?\s*=?\s*['\"]?TRUE", options))
        guards: set[Guard] = {"once_option"} if into and not forced else set()
        engine = "snowflake" if into else engine
        return [self._write("copy", target, place, engine, "COPY", guards=frozenset(guards), forced=forced)]

    def _marks(self, target: str, tree: exp.Expr, place: Place) -> list[Fact]:
        columns = [column.name for column in tree.find_all(exp.Column)] if isinstance(tree, exp.Update) else []
        if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
            columns = [column.name for column in tree.this.expressions]
        if is_mark(target) or (isinstance(tree, exp.Update) and any(is_mark(column) for column in columns)):
            return [MarkFact(place, target, "mark")]
        return []


def _partition(tree: exp.Insert) -> exp.Partition | None:
    """The PARTITION clause of an INSERT OVERWRITE, wherever the dialect's tree keeps it."""
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    partition = table.args.get("partition") if isinstance(table, exp.Table) else None
    partition = partition or tree.args.get("partition")
    return partition if isinstance(partition, exp.Partition) else None


def _shielded(fact: Fact) -> Fact:
    return replace(fact, guards=fact.guards | {"anti_join"}) if isinstance(fact, WriteFact) else fact


def _never(condition: object) -> bool:
    return isinstance(condition, exp.Expr) and condition.sql().upper().strip("() ") in ("FALSE", "1 = 0", "1 = 2")


def _only_literals(source: exp.Expr | None) -> bool:
    return isinstance(source, exp.Values) and not any(
        isinstance(part, (exp.Column, exp.Placeholder, exp.Parameter, exp.Func)) and not isinstance(part, exp.Values)
        for part in source.walk()
    )


def _normal(condition: exp.Expr) -> str:
    return shown(condition.sql()).lower()
