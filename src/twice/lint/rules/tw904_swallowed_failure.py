from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class SwallowedFailure(Rule):
    """A failed write is logged and the run goes on.

    What it does
        Finds writes inside try blocks whose handler of all errors neither raises nor leaves.

    Why it breaks a re-run
        The run reports success with half of its rows; nobody knows that there is something to repeat, and
        the next run builds on it.

    When it is fine
        When the failed part is recorded somewhere that is worked off later.
    """

    code = "TW904"
    name = "swallowed-failure"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "def load(df, engine):\n    try:\n        df.to_sql('sales', engine, if_exists='replace')\n   "
            " except Exception as error:\n        print(error)\n",
            "job.py",
            lines=(4,),
        ),
    )
    GOOD = (
        Case(
            "def load(df, engine):\n    try:\n        df.to_sql('sales', engine, if_exists='replace')\n   "
            " except Exception as error:\n        print(error)\n        raise\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for swallow in file.swallows:
            where = f"`{swallow.target}`" if swallow.target.strip("{}") else "the target"
            yield self.finding(
                file,
                swallow.place,
                f"If the write to {where} fails, the error is only noted and the run ends as a success: "
                "it is not repeated.",
                "Raise the error again after noting it.",
            )
