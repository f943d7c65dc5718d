"""graph: what reads what. Pipeline files are imported; no task is called and no Spark is started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from twice.cli.hints import runnable
from twice.cli.options import HERE, Where, boundary, output_option, print_json
from twice.cli.terminal import say

if TYPE_CHECKING:
    from twice.core.project.graph import Input, TaskNode


class GraphFormat(str, Enum):
    text = "text"
    json = "json"
    mermaid = "mermaid"


GraphOutput = Annotated[GraphFormat, output_option("mermaid is a drawing for Markdown.")]


@boundary
def graph(output: GraphOutput = GraphFormat.text, where: Where = HERE) -> int:
    """Show which task reads from which.

    In the order that `twice run --all` takes them; no task is run.
    """
    from twice.project import inspect

    with where.open() as opened:
        nodes = inspect.graph(opened)
    if output is GraphFormat.json:
        print_json({"tasks": [{**asdict(node), "after": node.after} for node in nodes]})
    elif output is GraphFormat.mermaid:
        print(_mermaid(nodes))
    elif not nodes:
        say("this project has no tasks yet")
    else:
        for node in nodes:
            _print_node(node)
        say(runnable("next: twice run --all --date DATE"))
    return 0


def _print_node(node: TaskNode) -> None:
    say(f"{node.level}  {node.task} -> {node.target}")
    tags = "".join(f"  tag:{tag}" for tag in node.tags)
    say(f"     {node.write} on {node.scope}{tags}")
    for source in node.inputs:
        cut = f" by {source.by}" if source.by else ""
        origin = "its own target" if source.task == node.task else f"from {source.task}" if source.task else ""
        notes = ", ".join(filter(None, [origin, "" if source.watch else "not watched"]))
        kind = "" if source.kind == "table" else f"{source.kind} "
        say(f"     reads {kind}{source.table}{cut}" + (f"  ({notes})" if notes else ""))


def _mermaid(nodes: Sequence[TaskNode]) -> str:
    """Tables are drawn as cylinders, tasks as boxes, files and params as leaning boxes. Names are letters, digits, dots
    and _, so none needs escaping; of patterns, quotes do."""
    lines = ["flowchart LR"]
    for node in nodes:
        lines.append(f'    task_{node.task}["{node.task}<br/>{node.write}"] --> {_table(node.target)}')
        lines += [f"    {_input(source)} --> task_{node.task}" for source in node.inputs]
    return "\n".join(lines)


def _input(source: Input) -> str:
    if source.kind == "table":
        return _table(source.table)
    name = source.table.replace('"', "#quot;")
    return f'{source.kind}_{re.sub(r"[^A-Za-z0-9]", "_", source.table)}[/"{name}"/]'


def _table(name: str) -> str:
    name = name.rpartition(":")[2]  # one table, with or without its format
    return f'table_{name.replace(".", "_")}[("{name}")]'
