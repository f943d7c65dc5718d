"""A write through a client, with the guards its target and its place give it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

from twice.lint.collect.guards.existence_checks import checks_existence
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, Verb, WriteFact
from twice.lint.resolve.folding import constant, label
from twice.lint.vocabulary import is_log, is_temporary, names_the_run


@dataclass(frozen=True)
class ClientWrite:
    """What one call of a client writes: its `guards` are those that the call itself shows."""

    verb: Verb
    engine: str
    target: str
    call: str
    guards: Collection[Guard] = ()
    transaction: str = ""


def client_write(context: ModuleContext, at: ast.AST, write: ClientWrite) -> WriteFact:
    guards: set[Guard] = set(write.guards)
    if is_temporary(write.target):
        guards.add("temporary")
    if names_the_run(write.target):
        guards.add("run_path")
    if is_log(write.target):
        guards.add("log")
    if checks_existence(context, at):
        guards.add("looked_first")
    place = context.place(at, transaction=write.transaction)
    return WriteFact(place, write.verb, write.engine, write.target, write.call, frozenset(guards))


def target_name(context: ModuleContext, node: ast.AST | None) -> str:
    if node is None:
        return ""
    text = constant(context.module, node).strip().lower()
    if not text and isinstance(node, ast.Attribute):
        # As in a statement's text: ``self.table`` there is {table}.
        return "{" + label(context.module, node).lower() + "}"
    return text or "{" + re.sub(r"[{}]", "", context.module.source(node, 40)).lower() + "}"
