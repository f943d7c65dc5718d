from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.tw301_bare_append import BareAppend
from twice.lint.rules.tw302_bare_insert import BareInsert


class OverlapAllowed(Rule):
    """Two runs of an unsafe writer may overlap.

    What it does
        Finds DAGs with catchup on or max_active_runs not 1 over code that deletes and inserts apart,
        appends, or updates in place.

    Why it breaks a re-run
        Two runs at once both delete, then both insert; both read the counter, then both write it.

    When it is fine
        max_active_runs=1.
    """

    code = "TW902"
    name = "overlap-allowed"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "from datetime import datetime\n"
            "from airflow import DAG\n"
            "from airflow.operators.python import PythonOperator\n"
            "\n"
            "def load(df, engine):\n"
            "    df.to_sql('sales', engine, if_exists='append')\n"
            "\n"
            "dag = DAG('sales', start_date=datetime(2026, 1, 1), catchup=True)\n"
            "PythonOperator(task_id='load', python_callable=load, dag=dag)\n",
            "dag.py",
            lines=(8,),
        ),
    )
    GOOD = (
        Case(
            "from datetime import datetime\n"
            "from airflow import DAG\n"
            "from airflow.operators.python import PythonOperator\n"
            "\n"
            "def load(df, engine):\n"
            "    df.to_sql('sales', engine, if_exists='append')\n"
            "\n"
            "dag = DAG('sales', start_date=datetime(2026, 1, 1), catchup=True, max_active_runs=1)\n"
            "PythonOperator(task_id='load', python_callable=load, dag=dag)\n",
            "dag.py",
        ),
    )

    def check(self, file: FileFacts, project: ProjectFacts, /) -> Iterator[Finding]:
        dags = [
            task for task in file.tasks if task.kind == "dag" and task.max_active_runs != 1 and task.catchup is True
        ]
        if not dags:
            return
        unsafe = [f for rule in (BareAppend, BareInsert) for f in rule().check(file, project) if f.severity == "error"]
        if unsafe:
            first = unsafe[0]
            yield self.finding(
                file,
                dags[0].span,
                "catchup without max_active_runs=1: missed runs start together, over code with "
                f"{first.code} (line {first.line}).",
                "Set max_active_runs=1 until the write is safe.",
                related=(Related(file.path, first.line, first.column, f"{first.code} {first.name}"),),
            )
