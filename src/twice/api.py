"""What a user writes: `@task`, `sql_task`, and a task that can preview itself in a notebook."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from twice.core.audit import Audit
from twice.core.backfill import CHOICES, DEFAULT, BatchSize, Request, SliceStatus, parse_batch, parse_only
from twice.core.backfill_result import BackfillResult, as_result
from twice.core.effect import Effect, tidy_effects
from twice.core.ports import Frame
from twice.core.proof import Proof
from twice.core.scope import Scope
from twice.core.task import Policy, Read, Strategy, TableName, Task, check_task, tidy_audits
from twice.errors import DeclarationError


class DeclaredTask(Task):
    """A task as `@task` returns it: still a plain function, with a preview."""

    def preview(self, date: str | None = None, *, project: str | Path = ".") -> Frame:
        """The result frame of one slice, pinned and cut like a run's, published nowhere."""
        from twice.project.run import preview  # here: a task is declared long before a session is needed
        from twice.wiring.open_project import open_project

        with open_project(Path(project)) as opened:
            return preview(opened, self, date)


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
) -> Callable[[Callable[..., Frame]], DeclaredTask]:
    """Declare a function as a task: what it owns (`target`, `scope`), what it reads, how it writes."""

    def declare(function: Callable[..., Frame]) -> DeclaredTask:
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


def session(project: str | Path = ".") -> Any:
    """The project's Spark session, for tests and notebooks; the one already running, if there is one."""
    from twice.wiring.open_project import session as open_session  # here: importing twice starts no engine

    return open_session(Path(project))


def backfill(
    task: Task | str,
    start: str,
    end: str,
    *,
    only: Sequence[SliceStatus] | None = None,
    parallel: int = 1,
    reverse: bool = False,
    batch: BatchSize = "auto",
    dry_run: bool = False,
    name: str | None = None,
    effects: Literal["silent", "send"] = "silent",
    restate: bool = False,
    downstream: bool = False,
    project: str | Path = ".",
) -> BackfillResult:
    """Make the slices from `start` to `end` (both included) right, by a plan that is made once and stored. A second
    call of the same backfill resumes it, and tries again what failed. Failures are in the result, not raised."""
    from twice.project import backfill as backfills  # here, as below: importing twice starts no engine
    from twice.runtime.backfill.worker import Stop
    from twice.wiring.open_project import open_project

    chosen = parse_only(",".join(only or (CHOICES if restate else DEFAULT)))
    title = task if isinstance(task, str) else task.name
    silent = effects == "silent"
    request = Request(title, start, end, chosen, reverse, parse_batch(str(batch)), restate, silent, downstream)
    with open_project(Path(project)) as opened:
        if dry_run:
            return as_result(backfills.plan(opened, request, name))
        record, _ = backfills.start(opened, request, name)
        backfills.work(opened, record.name, lambda _: None, Stop.never(), parallel)
        return backfills.show(opened, record.name)


def prove(
    job: Callable[[Any, Path], object],
    *,
    tables: Sequence[str],
    warehouse: str | Path = "warehouse",
    scenarios: Sequence[str] = (),
) -> Proof:
    """Prove a PySpark job that does not use twice. `job` is called several times with a session and the folder of a
    copy of `warehouse`: it must read and write there. `tables` are what it writes, compared after each time."""
    from twice.project.prove import prove_job  # here: importing twice starts no engine

    return prove_job(job, tables, Path(warehouse), scenarios)


def _query(bound: str, views: Mapping[str, str], parameters: Sequence[str]) -> Callable[..., Frame]:
    """The function of a SQL task: its inputs become views of the run's session, its slice becomes values."""

    def query(run: Any, **inputs: Frame) -> Frame:
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
