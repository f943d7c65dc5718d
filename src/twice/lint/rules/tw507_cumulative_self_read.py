from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule
from twice.lint.rules.wording import target_of
from twice.lint.vocabulary import same_table


class CumulativeSelfRead(Rule):
    """A table is built from its own earlier partition.

    What it does
        Finds overwrites of a partition whose query reads the same table.

    Why it breaks a re-run
        Days must run in order, one at a time. A repaired day has to be carried through all later ones; a
        warning where the DAG does not say depends_on_past.

    When it is fine
        A legitimate pattern, if the order is kept.
    """

    code = "TW507"
    name = "cumulative-self-read"
    severity = "info"
    preview = True
    BAD = (
        Case(
            "INSERT OVERWRITE TABLE users PARTITION (ds='{{ ds }}')\nSELECT u.id FROM users u WHERE u.ds "
            "= '{{ yesterday_ds }}';\n",
            "u.sql",
            lines=(1,),
        ),
    )
    GOOD = (
        Case(
            "INSERT OVERWRITE TABLE users PARTITION (ds='{{ ds }}')\nSELECT u.id FROM events u WHERE u.ds "
            "= '{{ ds }}';\n",
            "u.sql",
        ),
    )

    def check(self, file: FileFacts, project: ProjectFacts, /) -> Iterator[Finding]:
        tasks = project.tasks_of.get(file.path, ())
        ordered = any(task.depends_on_past for _, task in tasks)
        for write in file.writes:
            if (
                not (write.partition_by or write.conditions or "replace_where" in write.guards)
                or write.verb != "overwrite"
            ):
                continue
            if any(same_table(read, write.target) for read in write.reads):
                yield self.finding(
                    file,
                    write.place,
                    f"{target_of(write)} is built from its own earlier partition: days must run in order, "
                    "and a repaired day must be "
                    "carried through every later one.",
                    "Set depends_on_past and max_active_runs=1, and backfill forwards.",
                    severity="warning" if tasks and not ordered else "info",
                )
