"""dbt models: rendered with and without ``is_incremental()``, then read as the statement dbt would run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from twice.lint.facts import ModelFact, Place, TextSpan
from twice.lint.file_facts import FileFacts, Notice
from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.dbt_placeholders import Placeholder, this
from twice.lint.frontends.dbt_project import Surroundings, surroundings
from twice.lint.frontends.sql import read as read_sql
from twice.lint.frontends.template import Rendered, TemplateFailure, render
from twice.lint.source import suppressions

_CONFIG = re.compile(r"\{\{-?\s*config\s*\(")
_DEFINES = re.compile(r"\{%-?\s*(macro|materialization|test)\b")
_WRITES = re.compile(
    r"(?i)\b(insert\s+into|insert\s+overwrite|merge\s+into|delete\s+from|truncate\s+table|update\s+\w)"
)
_DIALECTS = {"databricks": "databricks", "sqlserver": "tsql", "synapse": "tsql", "athena": "athena"}
_STORED = ("incremental", "table", "snapshot", "dynamic_table", "materialized_view")
_VIEWS = ("view", "ephemeral")


def read(path: str, text: str, context: ReadContext) -> FileFacts:
    around = surroundings(context.file) if context.file else Surroundings()
    name = PurePosixPath(path).stem
    if _DEFINES.search(text):
        return _macros(path, text, context)
    try:
        renders = [render(text, model=name, incremental=state, adapter=around.adapter) for state in (True, False)]
    except TemplateFailure as failure:
        plain = read_sql(path, text, context)
        notice = Notice(path, 1, f"the template could not be rendered ({failure}); it was read as plain SQL")
        return replace(plain, language="dbt", notices=(notice, *plain.notices))
    config = around.config | renders[0].config
    model = _model(name, text, config, around, renders[0])
    context = replace(context, settings=replace(context.settings, dialect=_dialect(context, around)))
    readings = [_reading(path, each, model, context) for each in _statements(renders, model)]
    if around.compiled is not None and renders[0].macros:
        readings.append(_compiled(path, text, around, model, context))
    model = _observed(model, readings, renders[0])
    readings += _hooks(path, config, model, context)
    facts = _merged([_without_own_table(reading, model) for reading in readings])
    notices = (*facts.notices, *([Notice(path, 1, around.problem)] if around.problem else []))
    return replace(facts, language="dbt", models=(model,), suppressions=suppressions(text), notices=notices)


def _model(name: str, text: str, config: dict[str, Any], around: Surroundings, rendered: Rendered) -> ModelFact:
    at = _CONFIG.search(text)
    snapshot = re.search(r"\{%-?\s*snapshot\b", text)
    key = _names(config.get("unique_key"))
    strategy = config.get("incremental_strategy") or ""
    line = text.count("\n", 0, at.start()) + 1 if at else 1
    column = at.start() - text.rfind("\n", 0, at.start()) if at else 1
    return ModelFact(
        span=TextSpan(line, column, line, column + (len(at[0]) if at else 1)),
        name=name,
        materialized="snapshot" if snapshot else str(config.get("materialized") or "view"),
        unique_key=key,
        strategy="" if isinstance(strategy, Placeholder) else str(strategy),
        adapter=around.adapter,
        incremental_filter="is_incremental" in text,
        filter_in_macro="is_incremental" not in text and bool(rendered.macros),
        unique_tested=bool(key) and set(key) <= around.unique_columns,
        engine_replaces="ReplacingMergeTree" in str(config.get("engine") or ""),
    )


def _names(value: Any) -> tuple[str, ...]:
    """The columns of a key; one that only the run knows is still a key."""
    if value is None or value == "" or value == []:
        return ()
    parts = value if isinstance(value, (list, tuple)) else [value]
    return tuple(str(part).lower() for part in parts)


def _dialect(context: ReadContext, around: Surroundings) -> str:
    return context.settings.dialect or _DIALECTS.get(around.adapter, around.adapter)


def _statements(renders: list[Rendered], model: ModelFact) -> list[Rendered]:
    """What dbt sends: a query for a view, a table made from it, or rows inserted into the table that is there."""
    first_run = renders[1]
    if model.materialized not in _STORED:
        return [first_run]
    created = first_run.behind(f"create or replace table {this(model.name)} as ")
    if model.materialized != "incremental":
        return [created]
    return [renders[0].behind(f"insert into {this(model.name)} "), created]


def _reading(path: str, rendered: Rendered, model: ModelFact, context: ReadContext) -> FileFacts:
    if not rendered.text.strip():
        return FileFacts(path, "dbt", context.role)
    where = rendered.where()
    facts = read_sql(path, rendered.text, context)
    notices = tuple(replace(notice, line=where(TextSpan(notice.line)).line) for notice in facts.notices)
    facts = replace(_in_order(facts.moved(where)), notices=notices)
    # A view is computed when somebody looks at it: its clock is the reader's, not the run's.
    return replace(facts, clocks=()) if model.materialized in _VIEWS else facts


def _compiled(path: str, text: str, around: Surroundings, model: ModelFact, context: ReadContext) -> FileFacts:
    """What the macros added, from dbt's own output. A line of it is placed where the same line is in the model."""
    if around.compiled is None:
        return FileFacts(path, "dbt", context.role)
    body = around.compiled.read_text(encoding="utf-8", errors="replace")
    lines = {" ".join(line.split()): number for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    found = [lines.get(" ".join(line.split()), model.span.line) for line in body.splitlines()]

    def where(span: TextSpan) -> TextSpan:
        index = min(max(span.line, 1), len(found)) - 1
        return replace(span, line=found[index], end_line=found[index]) if found else model.span

    prefix = f"create or replace table {this(model.name)} as " if model.materialized in _STORED else ""
    return replace(_in_order(read_sql(path, prefix + body, context).moved(where)), notices=())


def _observed(model: ModelFact, readings: list[FileFacts], rendered: Rendered) -> ModelFact:
    """The model with what only its SQL shows: rows already there left out, a strict comparison with the newest."""
    own = this(model.name)
    anti = any("anti_join" in write.guards for facts in readings for write in facts.writes if write.target == own)
    strict = any(read.strict_mark for facts in readings for read in facts.reads)
    return replace(model, anti_join=anti, strict_mark=_mark(rendered, own) if strict else None)


def _mark(rendered: Rendered, own: str) -> TextSpan:
    """Where the comparison is: the last > before the model's own name."""
    text = rendered.text
    at = text.rfind(">", 0, max(text.find(own), 0))
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return rendered.where()(TextSpan(line, column, line, column + 1))


def _hooks(path: str, config: dict[str, Any], model: ModelFact, context: ReadContext) -> list[FileFacts]:
    found = []
    for key in ("pre_hook", "pre-hook", "post_hook", "post-hook"):
        hooks = config.get(key) or []
        for hook in hooks if isinstance(hooks, list) else [hooks]:
            statement = hook.get("sql") if isinstance(hook, dict) else hook
            if not isinstance(statement, str) or not _WRITES.search(statement):
                continue
            try:
                rendered = render(statement, model=model.name, incremental=True, adapter=model.adapter)
            except TemplateFailure:
                continue
            facts = read_sql(path, rendered.text, context).moved(lambda _: model.span)
            found.append(replace(_in_order(facts), notices=(), suppressions=()))
    return found


def _macros(path: str, text: str, context: ReadContext) -> FileFacts:
    """Macros are pieces of SQL; only those that write are read, and what cannot be parsed alone is no fault."""
    if not _WRITES.search(text) or re.search(r"\{%-?\s*(materialization|test)\b", text):
        return FileFacts(path, "dbt", context.role, suppressions=suppressions(text))
    return replace(read_sql(path, text, context), language="dbt", notices=())


def _without_own_table(facts: FileFacts, model: ModelFact) -> FileFacts:
    """The statement around the query is ours, so what it writes is in the ModelFact alone."""
    own = this(model.name)
    writes = tuple(write for write in facts.writes if write.target != own or write.verb in ("delete", "truncate"))
    return replace(facts, writes=writes, reads=tuple(read for read in facts.reads if not read.strict_mark))


def _in_order(facts: FileFacts) -> FileFacts:
    """Places ordered by the model's lines: two renders number theirs differently."""
    changes: dict[str, Any] = {}
    for part in fields(facts):
        shelf = getattr(facts, part.name)
        if isinstance(shelf, tuple):
            changes[part.name] = tuple(_ordered(fact) for fact in shelf)
    return replace(facts, **changes)


def _ordered(fact: Any) -> Any:
    place = getattr(fact, "place", None)
    if not is_dataclass(fact) or isinstance(fact, type) or not isinstance(place, Place):
        return fact
    return replace(fact, place=replace(place, order=place.span.line))


def _merged(readings: Iterable[FileFacts]) -> FileFacts:
    """One set of facts; what both renders give is kept once."""
    first, *rest = readings
    for reading in rest:
        first = first.joined(reading)
    shelves: dict[str, Any] = {
        part.name: tuple(dict.fromkeys(getattr(first, part.name)))
        for part in fields(first)
        if isinstance(getattr(first, part.name), tuple)
    }
    return replace(first, **shelves)
