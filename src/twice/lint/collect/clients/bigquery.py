"""BigQuery jobs: what their disposition does, and what happens when it is not given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twice.lint.collect.clients.client_writes import ClientWrite, client_write, target_name
from twice.lint.collect.guards.skip_existing import skips_existing
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, Verb, WriteFact
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method

_TABLES = (
    "destination_project_dataset_table",
    "destination_dataset_table",
    "destination",
    "table",
    "table_id",
    "destinationTable",
    "to_table",
)


def load_job(context: ModuleContext, call: ast.Call, name: str) -> Iterator[WriteFact]:
    """A BigQuery load appends unless its configuration sets something else."""
    config = keyword(call, "job_config")
    target = target_name(context, argument(call, 1, "destination"))
    if config is not None:
        if isinstance(config, ast.Name):
            values = context.module.values.get((context.module.unit(config), f"{config.id}.write_disposition"), [])
            made = context.module.value(config)
            if values or (isinstance(made, ast.Call) and keyword(made, "write_disposition") is not None):
                return
            if (
                made is None
                or not isinstance(made, ast.Call)
                or made.args
                or any(item.arg is None for item in made.keywords)
            ):
                return  # made elsewhere
        elif isinstance(config, ast.Call):
            if keyword(config, "write_disposition") is not None or not method(config).endswith("Config"):
                return
        else:
            return
    guards: set[Guard] = {"partition_decorator"} if "$" in target else set()
    if skips_existing(context, argument(call, 0, "dataframe", "json_rows")):
        guards.add("anti_join")
    yield client_write(
        context, call, ClientWrite("append", "bigquery", target, f"{name}() (appends by default)", guards)
    )


def dispositions(context: ModuleContext) -> Iterator[WriteFact]:
    """WRITE_APPEND, wherever it is given: keyword, attribute or configuration dictionary."""
    for node in context.module.nodes:
        word = (
            node.attr if isinstance(node, ast.Attribute) else literal(node) if isinstance(node, ast.Constant) else None
        )
        if word not in ("WRITE_APPEND", "WRITE_TRUNCATE"):
            continue
        holder = _holder(context, node)
        if holder is None:
            continue
        target = _destination(context, holder)
        guards: set[Guard] = {"partition_decorator"} if "$" in target else set()
        if _named_job(context, node):
            guards.add("once_option")
        loads = _loads(context, holder)
        if loads and skips_existing(context, argument(loads[0], 0, "dataframe", "json_rows")):
            guards.add("anti_join")
        verb: Verb = "append" if word == "WRITE_APPEND" else "overwrite"
        if verb == "overwrite" and not target:
            continue
        yield client_write(context, node, ClientWrite(verb, "bigquery", target, str(word), guards))


def _named_job(context: ModuleContext, node: ast.AST) -> bool:
    """BigQuery refuses a second job of the same id. One made of a clock or a random value is no such id."""
    unit = context.module.unit(node)
    ids = [keyword(call, "job_id") for call in context.module.calls if context.module.unit(call) == unit]
    words = [context.module.source(each, 200) for each in ids if each is not None]
    return bool(words) and not any(re.search(r"uuid|random|time|now\(|today\(", each) for each in words)


def _holder(context: ModuleContext, node: ast.AST) -> ast.AST | None:
    """The call, dictionary or assignment that takes the disposition; None when it is only compared or a default."""
    for parent in context.module.ancestors(node):
        if isinstance(parent, (ast.Call, ast.Dict)):
            return parent
        if isinstance(parent, ast.Assign):
            return parent
        if isinstance(parent, (ast.Compare, ast.arguments)):
            return None
        if isinstance(parent, ast.IfExp):
            continue
        if isinstance(parent, ast.stmt):
            return None
    return None


def _destination(context: ModuleContext, holder: ast.AST) -> str:
    calls = [holder] if isinstance(holder, ast.Call) else []
    calls += [parent for parent in context.module.ancestors(holder) if isinstance(parent, ast.Call)]
    for call in calls:
        for item in call.keywords:
            if item.arg in _TABLES:
                found = constant(context.module, item.value).lower()
                if found:
                    return found
    loads = _loads(context, holder)
    return target_name(context, argument(loads[0], 1, "destination")) if loads else ""


def _loads(context: ModuleContext, holder: ast.AST) -> list[ast.Call]:
    """The jobs of the function the disposition is in; loads before queries, which more often only read."""
    unit = context.module.unit(holder)
    calls = [call for call in context.module.calls if context.module.unit(call) == unit]
    loads = [call for call in calls if method(call).startswith("load_table_from")]
    return loads or [call for call in calls if method(call).startswith("query")]
