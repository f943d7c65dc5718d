"""Write docs/api.md from the public names, their signatures and docstrings; `--check` only says whether it is right."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import twice
from twice.core.slice import Slice
from twice.runtime.result.compute import Run

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
WIDTH = 100

HEAD = """# The Python API

Everything here is imported from `twice`, and nothing else is public. This page is made from the code by
`scripts/render_api.py`.

```python
import twice

result = twice.run("revenue_daily", date="2026-06-09")  # a task, or its name
result.outcome  # Outcome.PUBLISHED; again: Outcome.ALREADY
```

The verbs are those of the command line. Each opens the project that the folder `project` is in, does one thing and
closes it. They work in a notebook, in a test and in an orchestrator's worker: a Spark session that runs in the process
is used, else one is started and stays. `date` is the logical date, as text or as a `datetime.date`. What fails raises a
`TwiceError` with the command line's message, in which options are arguments; its classes are in `twice.errors`
(`except twice.errors.SliceBusy`). A result prints as one line, and as a small table in a notebook.

A Spark session of your own must be a classic one of Spark 4 with Delta: `spark.sql.extensions` is
`io.delta.sql.DeltaSparkSessionExtension`, `spark.sql.catalog.spark_catalog` is
`org.apache.spark.sql.delta.catalog.DeltaCatalog`, and Delta's jars are on its class path. What is missing is named
when a verb is called; a running session cannot be given it.

Two ways to name several slices, as on the command line: the **interval** of `run` is an orchestrator's, and its end is
not included (`--start`, `--end`); a **backfill** takes the first and the last slice, and both are included (`--from`,
`--to`). The result shows the slices that were meant.

A task may be given by its name or by itself. Given by itself it must be the one that the project's file declares: what
a cell of a notebook or a test declares otherwise is refused, and nothing is run
([decision 23](decisions/0023-a-task-given-by-itself-is-its-files.md)). `task.preview(date)` shows its rows all the
same.
"""

SECTIONS = {
    "Verbs": "run run_all restate retry plan status history backfill recover prove prove_job session",
    "Results": "RunResult Outcome RunAllResult RetryResult Explanation Status TaskStatus History BackfillResult "
    "RecoverResult Proof",
    "Errors": "TwiceError errors",
    "In results": "SliceResult StaleSlice AuditResult Changes EffectEnd EffectState Recovered Leaf Suspicion RunRecord "
    "AttemptRecord AttemptState Kind SliceRecord InputRecord Intention ProofRecord BackfillRequest BackfillState "
    "SliceReport BatchState SliceStatus StatusChoice BatchSize Comparison Trial TrialResult Difference RowPair Cause "
    "SideEffect",
    "Declaring tasks": "task sql_task DeclaredTask Task read Input Read TableName Files FileFormat Missing param Param "
    "ParamKind Policy Rerun Empty Retry ErrorMatch",
    "Scopes": "Daily Monthly Hourly Every Whole Since Scope days hours",
    "Strategies": "replace merge insert_new append_once Strategy MergeOrder NullKeys",
    "Audits": "audit Audit AuditKind Severity",
    "Effects": "slack email webhook call Effect EffectKind Again EffectText EffectBody Probe PublishedSlice "
    "EffectRefused",
    "Keys and comparison": "surrogate_key stable_row_hash assert_identical",
    "Messages": "WorkQueue Inbox Handler Item ItemStatus Worked",
}

RUN = """## The parameter run

A function with a parameter `run` is handed the run itself, beside its inputs. What it reads is better declared: a table
with `read(…)`, files with [`read.files(…)`](inputs.md).

```python
@task(
    "shop.orders",
    scope=Daily("order_date", start="2026-06-01"),
    inputs={"files": read.files("data/{ds}.csv", format="csv", schema="order_id BIGINT, order_date DATE")},
    write=replace(),
)
def orders(files, run):
    return files.withColumn("loaded_for", F.lit(run.slice.label))
```
"""
"""Not imported, and yet part of what users write."""


def page() -> str:
    """The whole page. Fails where a public name has no section."""
    sections = {title: names.split() for title, names in SECTIONS.items()}
    listed = [name for names in sections.values() for name in names]
    if sorted(listed) != sorted(twice.__all__):
        raise SystemExit(f"these names have no section, or are not public: {set(listed) ^ set(twice.__all__)}")
    parts = [HEAD.strip()]
    for title, names in sections.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _entry(name, getattr(twice, name))
        parts += _run_parameter() if title == "Declaring tasks" else []
    return "\n\n".join(parts) + "\n"


def _entry(name: str, public: Any) -> list[str]:
    shape = "\n".join(_shape(name, public))
    code = [f"```text\n{shape}\n```"] if shape else []
    own = [_method(word, each) for word, each in _methods(public)] if inspect.isclass(public) else []
    if _is_declarer(public):
        return _declarer(name, public)
    text = (_alias_doc(name) if _is_alias(public) else inspect.getdoc(public) or "").strip()
    return [f"### {name}", *code, text, *(["\n".join(own)] if own else [])]


def _run_parameter() -> list[str]:
    shape = "\n".join(f"run.{each.name}: {each.type}" for each in fields(Run))
    slice_ = ", ".join(f"`{each.name}`" for each in fields(Slice) if each.name != "bounds")
    ends = f"A slice has {slice_}: two UTC instants, of which the second is not included, and its name, `2026-06-09`."
    return [RUN.strip(), f"```text\n{shape}\n```", inspect.getdoc(Run) or "", ends]


def _is_declarer(public: Any) -> bool:
    """Something that is called, and has calls of its own beside: `read(…)` and `read.files(…)`."""
    return public in (twice.read, twice.param)


def _declarer(name: str, public: Any) -> list[str]:
    """Each way to call it, with what it says."""
    calls = [(name, type(public).__call__)]
    calls += [(f"{name}.{word}", each) for word, each in vars(type(public)).items() if inspect.isfunction(each)]
    parts = [f"### {name}", (inspect.getdoc(public) or "").strip()]
    for word, function in calls:
        if not word.rpartition(".")[2].startswith("_"):
            parts += [f"```text\n{_signature(word, function)}\n```", (inspect.getdoc(function) or "").strip()]
    return parts


def _is_alias(public: Any) -> bool:
    """A name for a union, a choice or a kind of function: it is neither a class nor called."""
    return not (inspect.ismodule(public) or inspect.isfunction(public) or inspect.isclass(public))


def _alias(name: str) -> tuple[str, str]:
    """How the source defines it, and the text beneath."""
    module = next(
        node.module
        for node in ast.walk(ast.parse(Path(twice.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and any(each.name == name for each in node.names)
    )
    body = ast.parse(inspect.getsource(import_module(module))).body
    for node, after in pairwise(body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            text = after.value if isinstance(after, ast.Expr) else None
            return ast.unparse(node.value), str(text.value) if isinstance(text, ast.Constant) else ""
    raise SystemExit(f"{name} is not assigned in {module}")


def _alias_doc(name: str) -> str:
    return " ".join(_alias(name)[1].split())


def _shape(name: str, public: Any) -> list[str]:
    """How it is called, or what it has."""
    if _is_alias(public):
        return [f"{name} = {_alias(name)[0]}".replace("'", '"')]
    if inspect.ismodule(public):
        found = [(word, each) for word, each in vars(public).items() if inspect.isfunction(each)]
        return [_signature(f"{name}.{word}", each) for word, each in found if _returns_audit(each)]
    if inspect.isfunction(public):
        return [_signature(name, public)]
    if issubclass(public, Enum):
        return [f"{name}.{each.name}  # {each.value}" for each in public]
    if public in (twice.DeclaredTask, twice.Strategy):
        return []
    if not _is_called(public) and is_dataclass(public):
        return [f"{each.name}: {each.type}" for each in fields(public)]
    return [_signature(name, public.__init__)] if "__init__" in vars(public) else []


def _is_called(public: type) -> bool:
    """Whether users make it themselves: then its call is shown, else its fields."""
    return public.__name__ in SECTIONS["Scopes"].split() or public in (twice.Policy, twice.Retry)


def _returns_audit(function: Any) -> bool:
    return bool(function.__annotations__.get("return") == "Audit")


def _methods(public: type) -> list[tuple[str, Any]]:
    """Its own public methods and properties, without those of its own machinery; before them those of a base that has
    no entry here."""
    if _is_called(public) or issubclass(public, Enum | Exception) or public is twice.Strategy:
        return []
    return [
        (name, each)
        for owner in [*reversed(_bases(public)), public]
        for name, each in vars(owner).items()
        if not name.startswith("_")
        and name not in ("as_table", "to_json")
        and (inspect.isfunction(each) or isinstance(each, property))
    ]


def _bases(public: type) -> list[type]:
    entries = [getattr(twice, name) for name in twice.__all__]
    return [base for base in public.__mro__[1:] if base.__module__.startswith("twice.") and base not in entries]


def _method(name: str, each: Any) -> str:
    function = each.fget if isinstance(each, property) else each
    doc = " ".join((inspect.getdoc(function) or "").split())
    if isinstance(each, property):
        shape = f"{name}: {function.__annotations__['return']}"
    else:
        shape = " ".join(_signature(name, function).split()).replace("( ", "(").replace(", )", ")")
    return f"- `{shape}`" + (f" {doc}" if doc else "")


def _signature(name: str, function: Any) -> str:
    """As it is written, without `self`; over several lines if it is long."""
    signature = inspect.signature(function)
    given = [each for each in signature.parameters.values() if each.name != "self"]
    found = signature.replace(parameters=[each.replace(annotation=_plain(each.annotation)) for each in given])
    returns = _plain(found.return_annotation)
    arrow = "" if returns in (inspect.Signature.empty, "None") else f" -> {returns}"
    parameters = _parameters(found)
    line = f"{name}({', '.join(parameters)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){arrow}"])


def _parameters(signature: inspect.Signature) -> list[str]:
    written, keywords = [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not keywords:
            keywords = True
            written.append("*")
        elif each.kind is each.VAR_POSITIONAL:
            keywords = True
        note = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else (" = " if note else "=") + _default(each.default)
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        written.append(f"{star}{each.name}{note}{default}")
    return written


def _default(value: Any) -> str:
    """Left out where it is recreated, or is long."""
    text = repr(value).replace("datetime.timedelta", "timedelta").replace("'", '"')
    return "…" if text.startswith("<") or len(text) > 40 else text


def _plain(annotation: Any) -> Any:
    return annotation if isinstance(annotation, str) or annotation is inspect.Signature.empty else _named(annotation)


def _named(annotation: Any) -> str:
    return "None" if annotation is None else getattr(annotation, "__name__", str(annotation))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is not what would be written")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print("docs/api.md is not what the code says; run: python scripts/render_api.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
