from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class ClockInDag(Rule):
    """A clock in the arguments of a DAG or an operator, or at module level of a DAG file.

    What it does
        Finds `datetime.now()`, `days_ago()` and their relatives in `start_date`, `op_kwargs`, `params` and
        other arguments, also through one assignment, and clocks evaluated while the DAG file is parsed.

    Why it breaks a re-run
        The scheduler parses the file every few seconds. The value belongs to the moment of parsing, not to
        the run: a cleared task of last week gets today's value, and a moving start date lets runs be
        skipped or repeated.

    When it is fine
        Never for `start_date`. For messages and file names of logs it does not matter.
    """

    code = "TW105"
    name = "clock-in-dag"
    severity = "warning"
    BAD = (
        Case(
            "from datetime import datetime\nfrom airflow import DAG\n\n"
            'dag = DAG("orders", start_date=datetime.now(), schedule="@daily")\n',
            "dag.py",
            lines=(4,),
        ),
        Case(
            "from airflow import DAG\nfrom airflow.utils.dates import days_ago\n\n"
            'default_args = {"owner": "data", "start_date": days_ago(1)}\n'
            'dag = DAG("orders", default_args=default_args)\n',
            "dag.py",
            lines=(4,),
        ),
    )
    GOOD = (
        Case(
            "from datetime import datetime\nfrom airflow import DAG\n\n"
            'dag = DAG("orders", start_date=datetime(2026, 1, 1), schedule="@daily", catchup=False)\n',
            "dag.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for clock in file.clocks:
            if clock.use != "dag":
                continue
            name = f"`{clock.name}`" if clock.name else "An argument"
            yield self.finding(
                file,
                clock.place,
                f"{name} is `{clock.call}`, read whenever the scheduler parses this file: a task of 9 June cleared on "
                "11 June gets the value of 11 June.",
                "Write a literal date for start_date, and `{{ ds }}` or `data_interval_start` for the rest.",
            )
