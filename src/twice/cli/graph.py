"""graph: what reads what. Pipeline files are imported; no task is called and no Spark is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from twice.cli.hints import runnable
from twice.cli.options import HERE, Where, boundary, output_option, print_json

if TYPE_CHECKING:
    from twice.core.project.graph import TaskNode


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
        print("this project has no tasks yet")
    else:
        for node in nodes:
            _print_node(node)
        print(runnable("next: twice run --all --date DATE"))
    return 0


def _print_node(node: TaskNode) -> None:
    print(f"{node.level}  {node.task} -> {node.target}")
    print(f"     {node.write} on {node.scope}")
    for source in node.inputs:
        cut = f" by {source.by}" if source.by else ""
        origin = "its own target" if source.task == node.task else f"from {source.task}" if source.task else ""
        print(f"     reads {source.table}{cut}" + (f"  ({origin})" if origin else ""))


def _mermaid(nodes: Sequence[TaskNode]) -> str:
    """Tables are drawn as cylinders, tasks as boxes. Names are letters, digits, dots and _, so none needs escaping."""
    lines = ["flowchart LR"]
    for node in nodes:
        lines.append(f'    task_{node.task}["{node.task}<br/>{node.write}"] --> {_table(node.target)}')
        lines += [f"    {_table(source.table)} --> task_{node.task}" for source in node.inputs]
    return "\n".join(lines)


def _table(name: str) -> str:
    name = name.rpartition(":")[2]  # one table, with or without its format
    return f'table_{name.replace(".", "_")}[("{name}")]'
