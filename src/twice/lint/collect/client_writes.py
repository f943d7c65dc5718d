"""A write through a client, with the guards its target and its place give it."""

from __future__ import annotations

import ast
import re

from twice.lint.collect.existence_checks import looks_first
from twice.lint.collect.module_context import ModuleContext
from twice.lint.facts import Guard, Verb, WriteFact
from twice.lint.resolve.folding import constant, label
from twice.lint.vocabulary import is_log, is_temporary, names_the_run


def client_write(
    context: ModuleContext, at: ast.AST, verb: Verb, engine: str, target: str, words: str,
    guards: set[Guard] | None = None, transaction: str = "",
) -> WriteFact:  # fmt: skip
    all_guards: set[Guard] = set(guards or ())
    if is_temporary(target):
        all_guards.add("temporary")
    if names_the_run(target):
        all_guards.add("run_path")
    if is_log(target):
        all_guards.add("log")
    if looks_first(context, at):
        all_guards.add("looked_first")
    return WriteFact(context.place(at, transaction=transaction), verb, engine, target, words, frozenset(all_guards))


def target_name(context: ModuleContext, node: ast.AST | None) -> str:
    if node is None:
        return ""
    text = constant(context.module, node).strip().lower()
    if not text and isinstance(node, ast.Attribute):
        # As in a statement's text: ``self.table`` there is {table}.
        return "{" + label(context.module, node).lower() + "}"
    return text or "{" + re.sub(r"[{}]", "", context.module.source(node, 40)).lower() + "}"
