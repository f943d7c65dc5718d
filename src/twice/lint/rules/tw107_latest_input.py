from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class LatestInput(Rule):
    """The input is whatever is newest when the job runs.

    What it does
        Finds `WHERE dt = (SELECT max(dt) …)`, `max(glob(…))`, `sorted(listdir(…))[-1]` and paths named
        latest.

    Why it breaks a re-run
        A repair of last week's run reads this week's newest file. The same run gives another result, and
        the wrong day stays wrong.

    When it is fine
        Serving views and dimension snapshots that mean the newest state.
    """

    code = "TW107"
    name = "latest-input"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "CREATE TABLE t AS SELECT * FROM src WHERE dt = (SELECT max(dt) FROM src);\n",
            "t.sql",
            lines=(1,),
        ),
        Case(
            "import glob, os\n\ndef pick():\n    return max(glob.glob('in/*.csv'), key=os.path.getctime)\n",
            "job.py",
            lines=(4,),
        ),
    )
    GOOD = (Case("CREATE TABLE t AS SELECT * FROM src WHERE dt = '{{ ds }}';\n", "t.sql"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for read in file.reads:
            if read.latest:
                yield self.finding(
                    file,
                    read.place,
                    "The input is the newest there is at this moment: the run of 9 June repeated on 11 "
                    "June reads the file of 11 June.",
                    "Name the partition or file by the date of the run.",
                    declaration='inputs={"…": read("<table>", by="<date column>")}  # cut to the slice',
                )
