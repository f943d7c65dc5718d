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
from twice.core.scope import Scope
from twice.core.task import Policy, Read, Strategy, TableName, Task, tidy_audits
from twice.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeclaredTask(Task):
    """A task as `@task` returns it: still a plain function, with a preview."""

    @verb
    def preview(
        self, date: str | datetime.date | None = None, *, project: str | Path = ".", profile: str | None = None
    ) -> DataFrame:
        """The result frame of one slice, pinned and cut like a run's, published nowhere. Of the task as it is here,
        whatever the project's file says."""
        from twice.project.run import preview  # here: a task is declared long before a session is needed
        from twice.wiring.open_project import open_project

        with open_project(Path(project), profile) as opened:
            frame: DataFrame = preview(opened, self, label(date))
            return frame


def task(
    target: str,
    *,
    scope: Scope,
    write: Strategy,
    inputs: Mapping[str, Read] | None = None,
    audits: Sequence[Audit] = (),
    effects: Sequence[Effect] = (),
    policy: Policy | None = None,
    name: str | None = None,
    formerly: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], DeclaredTask]:
    """Declare a function as a task: what it owns (`target`, `scope`), what it reads, how it writes."""

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
    inputs: Mapping[str, Read],
    audits: Sequence[Audit] = (),
    effects: Sequence[Effect] = (),
    policy: Policy | None = None,
    name: str | None = None,
    formerly: Sequence[str] = (),
) -> DeclaredTask:
    """Declare a file with one Spark SQL query as a task.

    The query names the tables that `inputs` declares; `:start`, `:end` and `:ds` are bound as values, never
    pasted into the text. The path is looked for beside the declaring file, then in the folders above it.
    """
    from twice.engine.code.sql import bind, parameters_in  # here: sqlglot is slow to import, and rarely needed

    declared_in = Path(inspect.stack()[1].filename)
    file = _find(Path(path), declared_in)
    text = file.read_text(encoding="utf-8")
    title = name or file.stem
    checked = _checked_inputs(inputs, title)
    views = {name: f"twice_input_{name}" for name in checked}
    try:
        bound = bind(text, {checked[name].table.name: view for name, view in views.items()})
    except DeclarationError as error:
        error.at(f"{title} ({file.name})")
        raise
    parameters = parameters_in(text)
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
    )
    check_task(declared)
    return declared


def _query(bound: str, views: Mapping[str, str], parameters: Sequence[str]) -> Callable[..., Any]:
    """The function of a SQL task: its inputs become views of the run's session, its slice becomes values."""

    def query(run: Any, **inputs: Any) -> Any:
        for name, frame in inputs.items():
            frame.createOrReplaceTempView(views[name])
        values = {"start": run.slices[0].start, "end": run.slices[-1].end, "ds": run.slice.label}
        return run.spark.sql(bound, args={name: values[name] for name in parameters})

    return query


def _checked_inputs(inputs: Mapping[str, Read], where: str) -> Mapping[str, Read]:
    for name, source in inputs.items():
        if not isinstance(source, Read):
            raise DeclarationError(
                f"input {name} is a {type(source).__name__}, not a read(…)",
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
