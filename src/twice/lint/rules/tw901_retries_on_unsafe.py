from __future__ import annotations

from collections.abc import Iterator

from twice.lint.facts import TaskFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.tw301_bare_append import BareAppend
from twice.lint.rules.tw302_bare_insert import BareInsert
from twice.lint.rules.tw506_read_modify_write import ReadModifyWrite

_UNSAFE: tuple[type[Rule], ...] = (BareAppend, BareInsert, ReadModifyWrite)


class RetriesOnUnsafe(Rule):
    """Retries repeat code that is not safe to repeat.

    What it does
        Finds retries (task, default_args, Celery, tenacity) over code in which an append, an insert or an
        update would be applied twice.

    Why it breaks a re-run
        Nobody has to re-run anything: the scheduler does it, at night, after the first attempt wrote its
        rows and then failed.

    When it is fine
        Once the finding it refers to is fixed, or with retries=0.
    """

    code = "TW901"
    name = "retries-on-unsafe"
    severity = "error"
    BAD = (
        Case(
            "from datetime import datetime\nfrom airflow import DAG\nfrom airflow.operators.python import "
            "PythonOperator\n\n"
            'def load(df, engine):\n    df.to_sql("sales", engine, if_exists="append")\n\n'
            'default_args = {"owner": "data", "retries": 3}\n'
            'dag = DAG("sales", default_args=default_args, start_date=datetime(2026, 1, 1))\n'
            'PythonOperator(task_id="load", python_callable=load, dag=dag)\n',
            "dag.py",
            lines=(8,),
        ),
    )
    GOOD = (
        Case(
            "from datetime import datetime\nfrom airflow import DAG\nfrom airflow.operators.python import "
            "PythonOperator\n\n"
            'def load(df, engine):\n    df.to_sql("sales", engine, if_exists="replace")\n\n'
            'default_args = {"owner": "data", "retries": 3}\n'
            'dag = DAG("sales", default_args=default_args, start_date=datetime(2026, 1, 1))\n'
            'PythonOperator(task_id="load", python_callable=load, dag=dag)\n',
            "dag.py",
        ),
    )

    def check(self, file: FileFacts, project: ProjectFacts, /) -> Iterator[Finding]:
        retried = [task for task in file.tasks if (task.retries or 0) > 0]
        if not retried:
            return
        unsafe = [finding for rule in _UNSAFE for finding in rule().check(file, project) if finding.severity == "error"]
        units = {write.place.span.line: write.place.unit for write in file.writes}
        reported: set[int] = set()
        for task in retried:
            hit = [f for f in unsafe if not task.units or units.get(f.line, "") in task.units]
            if hit and task.span.line not in reported:
                reported.add(task.span.line)
                yield self._of(file, task, hit)

    def _of(self, file: FileFacts, task: TaskFact, hit: list[Finding]) -> Finding:
        first = hit[0]
        count = f" and {len(hit) - 1} more" if len(hit) > 1 else ""
        return self.finding(
            file,
            task.span,
            f"retries={task.retries} repeats code with {first.code} ({first.name}, line "
            f"{first.line}){count}: an attempt that wrote its "
            "rows and then failed is followed by one that writes them again.",
            f"Fix {first.code} first; until then retries=0.",
            declaration="twice retries safely by itself: an attempt that landed is found in the target",
            related=tuple(Related(file.path, f.line, f.column, f"{f.code} {f.name}") for f in hit[:4]),
        )
