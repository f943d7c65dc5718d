from __future__ import annotations

import re
from collections.abc import Iterator

from twice.lint.facts import TaskFact, WriteFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import target_of

_DAY = re.compile(r"\{(\w*_)?(ds|ds_nodash|execution_date|logical_date|run_date|date|dt|day)(_\w*)?\}", re.I)
_FINER = re.compile(r"hour|minute|\{ts|ts_nodash|%h|_hh", re.I)


class PartitionCoarserThanSchedule(Rule):
    """A job that runs every hour writes a partition of a day.

    What it does
        Compares the schedule of the DAG with the target of its writes: an hourly (or finer) schedule and a
        path or predicate that holds only the day.

    Why it breaks a re-run
        Each hour replaces what the hours before wrote, or appends to it. After a re-run of 08:00 the day
        holds 08:00 only.

    When it is fine
        When the job recomputes the whole day each hour, or merges on a key.
    """

    code = "TW402"
    name = "partition-coarser-than-schedule"
    severity = "error"
    BAD = (
        Case(
            "from datetime import datetime\nfrom airflow import DAG\nfrom airflow.operators.python import "
            "PythonOperator\n\n"
            'def load(df, ds):\n    df.write.mode("overwrite").parquet(f"s3://lake/events/ds={ds}/")\n\n'
            'dag = DAG("events", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False)\n'
            'PythonOperator(task_id="load", python_callable=load, dag=dag)\n',
            "dag.py",
            lines=(6,),
        ),
    )
    GOOD = (
        Case(
            "from datetime import datetime\nfrom airflow import DAG\nfrom airflow.operators.python import "
            "PythonOperator\n\n"
            'def load(df, ds):\n    df.write.mode("overwrite").parquet(f"s3://lake/events/ds={ds}/")\n\n'
            'dag = DAG("events", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)\n'
            'PythonOperator(task_id="load", python_callable=load, dag=dag)\n',
            "dag.py",
        ),
    )

    def check(self, file: FileFacts, project: ProjectFacts, /) -> Iterator[Finding]:
        frequent = [
            (path, task) for path, task in project.tasks_of.get(file.path, ()) if is_finer_than_a_day(task.schedule)
        ]
        if not frequent:
            return
        path, task = frequent[0]
        for write in file.writes:
            if _is_daily(write):
                yield self._of(file, write, path, task)

    def _of(self, file: FileFacts, write: WriteFact, path: str, task: TaskFact) -> Finding:
        return self.finding(
            file,
            write.place,
            f"The schedule `{task.schedule}` runs many times a day, and {target_of(write)} holds one "
            "partition a day: the run of 09:00 "
            "replaces what 08:00 wrote.",
            "Put the hour into the path or predicate, or run once a day.",
            declaration='@task(…, scope=Hourly("<time column>", start=…), write=replace())',
            related=(Related(path, task.span.line, task.span.column, "the schedule"),),
        )


def _is_daily(write: WriteFact) -> bool:
    if write.verb not in ("overwrite", "delete"):
        return False
    text = " ".join((write.target, *write.conditions))
    return bool(_DAY.search(text)) and not _FINER.search(text)


def is_finer_than_a_day(schedule: str) -> bool:
    if schedule == "@hourly":
        return True
    if schedule.startswith("timedelta"):
        return bool(re.search(r"minutes=|seconds=|hours=(\d|1\d|2[0-3])\b", schedule)) and "days=" not in schedule
    fields = schedule.split()
    if len(fields) != 5:
        return False
    minute, hour = fields[0], fields[1]
    return hour == "*" or "/" in hour or "," in hour or "-" in hour or "/" in minute
