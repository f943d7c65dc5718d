"""Python source: parsed, never imported."""

from __future__ import annotations

import ast
import warnings

from twice.lint.collect.clients.clients import collect_clients
from twice.lint.collect.clocks.clock_calls import clock_flow
from twice.lint.collect.clocks.clocks import collect_clocks
from twice.lint.collect.effects import collect_effects
from twice.lint.collect.frames.frames import collect_frames
from twice.lint.collect.frames.orders import collect_orders
from twice.lint.collect.guards.transactions import TransactionBlocks
from twice.lint.collect.ids import collect_ids, random_flow
from twice.lint.collect.marks import collect_marks
from twice.lint.collect.module_context import ModuleContext
from twice.lint.collect.sql.sqltext import collect_sql
from twice.lint.collect.tasks import collect_swallows, collect_tasks
from twice.lint.file_facts import FileFacts, Notice
from twice.lint.frontends.context import ReadContext
from twice.lint.gather import Gathering
from twice.lint.resolve.module import LintedModule
from twice.lint.source import suppressions


def read(path: str, text: str, context: ReadContext) -> FileFacts:
    gathering = Gathering()
    tree = _parsed(path, text, gathering)
    if tree is None:
        return gathering.as_facts(path, "python", context.role, suppressions=suppressions(text))
    module = LintedModule(tree, text)
    module_context = ModuleContext(module, gathering, context.settings)
    clocks = clock_flow(module)
    transactions = TransactionBlocks(module_context)
    collect_tasks(module_context)
    collect_sql(module_context, transactions, clocks, random_flow(module))
    collect_frames(module_context, transactions)
    collect_clients(module_context)
    collect_clocks(module_context, clocks)
    collect_ids(module_context)
    collect_orders(module_context, clocks)
    collect_effects(module_context)
    collect_marks(module_context)
    collect_swallows(module_context)
    name = path.rsplit("/", 1)[-1].removesuffix(".py")
    return gathering.as_facts(
        path,
        "python",
        context.role,
        module=name,
        imports=tuple(sorted(module_context.imports)),
        suppressions=suppressions(text),
    )


def _parsed(path: str, text: str, gathering: Gathering) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings are not our news
            return ast.parse(text)
    except SyntaxError as error:
        hint = " (Python 2?)" if "print" in str(error.msg) or "exec" in str(error.msg) else ""
        gathering.add(Notice(path, error.lineno or 1, f"cannot be parsed as Python: {error.msg}{hint}"))
    except (ValueError, RecursionError, MemoryError) as error:
        gathering.add(Notice(path, 1, f"cannot be parsed as Python: {type(error).__name__}"))
    return None
