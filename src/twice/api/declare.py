"""What a user writes: `@task`, `sql_task`, and a task that can preview itself in a notebook."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twice.api.arguments import label
from twice.api.boundary import verb
from twice.core.audit import Audit
from twice.core.check_task import check_task
from twice.core.effect import Effect, tidy_effects
from twice.core.file_input import Files
from twice.core.param import Param
from twice.core.project.graph import declared_parts
from twice.core.results.summary import html_table
from twice.core.scope import Scope
from twice.core.task import Input, Policy, Read, Strategy, TableName, Task, tidy_audits, tidy_tags
from twice.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SHOW_ROWS = "spark.sql.repl.eagerEval.enabled"
"""Spark's own setting: a notebook then shows a frame's first rows. Of the preview's session alone."""


class DeclaredTask(Task):
    """A task as `@task` returns it: still a plain function, with a preview. A notebook shows its declaration."""

    def __str__(self) -> str:
        return f"{self.name} writes {self.target}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        return html_table(str(self), ("", "declared"), declared_parts(self))

    @verb
    def preview(
        self, date: str | datetime.date | None = None, *, project: str | Path = ".", profile: str | None = None
    ) -> DataFrame:
        """The result frame of one slice, pinned and cut like a run's, published nowhere. Of the task as it is here,
        whatever the project's file says. A notebook shows its first rows."""
        from twice.project.run import preview  # here: a task is declared long before a session is needed
        from twice.wiring.open_project import open_project

        with open_project(Path(project), profile) as opened:
            frame: DataFrame = preview(opened, self, label(date))
            frame.sparkSession.conf.set(_SHOW_ROWS, "true")
            return frame


def task(
    target: str,
    *,
    scope: Scope,
    write: Strategy,
    inputs: Mapping[str, Input] | None = None,
    audits: Sequence[Audit] = (),
    effects: Sequence[Effect] = (),
    policy: Policy | None = None,
    name: str | None = None,
    formerly: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], DeclaredTask]:
    """Declare a function as a task: what it owns (`target`, `scope`), what it reads, how it writes. `tags`: words by
    which a command chooses it together with others, such as `twice run tag:finance`."""

    def declare(function: Callable[..., Any]) -> DeclaredTask:
        declared = DeclaredTask(
            name=name or function.__name__,
            target=TableName.parse(target),
            scope=scope,
            inputs=_checked_inputs(inputs or {}, function.__name__),
            write=write,
            function=function,
            audits=tidy_audits(audits, name or function.__name__),
            effects=tidy_effects(effects, name or function.__name__),
            policy=policy or Policy(),
            formerly=tuple(formerly),
            source=_source(function),
            tags=tidy_tags(tags, name or function.__name__),
        )
        check_task(declared)
        return declared

    return declare


def sql_task(
    path: str | Path,
    target: str,
    *,
    scope: Scope,
    write: Strategy,
    inputs: Mapping[str, Input],
    audits: Sequence[Audit] = (),
    effects: Sequence[Effect] = (),
    policy: Policy | None = None,
    name: str | None = None,
    formerly: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> DeclaredTask:
    """Declare a file with one Spark SQL query as a task.

    The query names the tables that `inputs` declares, and files by the name of their input; `:start`, `:end` and `:ds`
    are bound as values, and so is each param by its name, never pasted into the text. The path is looked for beside the
    declaring file, then in the folders above it.
    """
    from twice.engine.code.sql import (
        PARAMETERS,
        bind,
        parameters_in,
    )  # here: sqlglot is slow to import, and rarely needed

    declared_in = Path(inspect.stack()[1].filename)
    file = _find(Path(path), declared_in)
    text = file.read_text(encoding="utf-8")
    title = name or file.stem
    checked = _checked_inputs(inputs, title)
    views = {name: f"twice_input_{name}" for name, source in checked.items() if not isinstance(source, Param)}
    params = [name for name, source in checked.items() if isinstance(source, Param)]
    try:
        _check_params(params, parameters_in(text))
        bound = bind(text, {_called(name, checked[name]): view for name, view in views.items()}, (*PARAMETERS, *params))
    except DeclarationError as error:
        error.at(f"{title} ({file.name})")
        raise
    parameters = tuple(name for name in parameters_in(text) if name in PARAMETERS)
    declared = DeclaredTask(
        name=title,
        target=TableName.parse(target),
        scope=scope,
        inputs=checked,
        write=write,
        function=_query(bound, views, parameters),
        audits=tidy_audits(audits, title),
        effects=tidy_effects(effects, title),
        policy=policy or Policy(),
        formerly=tuple(formerly),
        sql=text,
        parameters=parameters,
        source=declared_in,
        sql_file=file.resolve(),
        tags=tidy_tags(tags, title),
    )
    check_task(declared)
    return declared


def _called(name: str, source: Input) -> str:
    """What a query calls an input: a table by its own name, files by the input's."""
    return source.table.name if isinstance(source, Read) else name


def _check_params(params: Sequence[str], named: Sequence[str]) -> None:
    from twice.engine.code.sql import PARAMETERS

    for name in params:
        if name in PARAMETERS:
            raise DeclarationError(
                f"the param {name} has the name of a value of the slice, :{name}", fix="Give it another name."
            )
        if name not in named:
            raise DeclarationError(
                f"the param {name} is declared, but the SQL does not name :{name}", fix="Take it out of inputs=."
            )


def _query(bound: str, views: Mapping[str, str], parameters: Sequence[str]) -> Callable[..., Any]:
    """The function of a SQL task: its inputs become views of the run's session, its slice and its params values."""

    def query(run: Any, **inputs: Any) -> Any:
        for name, view in views.items():
            inputs.pop(name).createOrReplaceTempView(view)
        values = {"start": run.slices[0].start, "end": run.slices[-1].end, "ds": run.slice.label}
        return run.spark.sql(bound, args={**{name: values[name] for name in parameters}, **inputs})

    return query


def _checked_inputs(inputs: Mapping[str, Input], where: str) -> Mapping[str, Input]:
    for name, source in inputs.items():
        if not isinstance(source, Read | Files | Param):
            raise DeclarationError(
                f"input {name} is a {type(source).__name__}, not a read(…), a read.files(…) or a param(…)",
                where=where,
                fix=f'Write inputs={{"{name}": read("shop.orders", by="order_date")}}.',
            )
    return dict(inputs)


def _source(function: Callable[..., Any]) -> Path | None:
    file = inspect.getsourcefile(inspect.unwrap(function))
    return Path(file) if file and not file.startswith("<") else None


def _find(path: Path, declared_in: Path) -> Path:
    for folder in (declared_in.parent, *declared_in.parent.parents):
        if (folder / path).is_file():
            return folder / path
    raise DeclarationError(
        f"there is no file {path}", where=declared_in.name, fix="Give its path from the declaring file or the project."
    )
