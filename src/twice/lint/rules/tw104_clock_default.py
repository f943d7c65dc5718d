from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class ClockDefault(Rule):
    """The date of a run silently becomes today when nobody gives one.

    What it does
        Finds run dates whose default is a clock: default arguments, command line defaults, `day or
        date.today()`, `if day is None: day = date.today()`, `os.getenv("DAY", now())`.

    Why it breaks a re-run
        The scheduled run gives no date and the repair gives none either, so the repair works on another
        day. A default argument is worse: it is evaluated once, when the module is imported, and a long-
        lived worker keeps that day.

    When it is fine
        Tools a person starts by hand and looks at.
    """

    code = "TW104"
    name = "clock-default"
    severity = "warning"
    BAD = (
        Case("from datetime import date\n\ndef run(day=date.today()):\n    load(day)\n", lines=(3,)),
        Case(
            "import argparse\nfrom datetime import datetime\n\nparser = argparse.ArgumentParser()\n"
            'parser.add_argument("--date", default=datetime.now().strftime("%Y-%m-%d"))\n',
            lines=(5,),
        ),
        Case(
            "from datetime import date\n\ndef run(day=None):\n    if day is None:\n        day = "
            "date.today()\n    load(day)\n",
            lines=(5,),
        ),
    )
    GOOD = (Case("def run(day):\n    load(day)\n"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for clock in file.clocks:
            if clock.use != "default":
                continue
            name = f"`{clock.name}`" if clock.name and " " not in clock.name else "the date"
            when = (
                " It is read once, at import: a worker that lives for days keeps the first day."
                if clock.at_import
                else ""
            )
            yield self.finding(
                file,
                clock.place,
                f"{name} becomes `{clock.call}` when nobody gives it: the re-run of a failed day works on today.{when}",
                "Make the date a required argument.",
                declaration="twice run <task> --date 2026-06-09  # without --date it refuses",
            )
