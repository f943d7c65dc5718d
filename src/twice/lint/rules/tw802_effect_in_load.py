from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related
from twice.lint.rules.rule import Case, Rule


class EffectInLoad(Rule):
    """The same function stores rows and sends something to the outside.

    What it does
        Finds effects in functions that also write data.

    Why it breaks a re-run
        A failure after the message and before the commit, or the other way round, makes them disagree; the
        retry repeats both.

    When it is fine
        When the message goes out after the commit and has a key.
    """

    code = "TW802"
    name = "effect-in-load"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "import requests\n\ndef load(df, engine):\n    df.to_sql('sales', engine, "
            "if_exists='replace')\n    requests.post('https://partner.example.com/done', json={})\n",
            "job.py",
            lines=(5,),
        ),
    )
    GOOD = (
        Case(
            "import requests\n"
            "\n"
            "def load(df, engine):\n"
            "    df.to_sql('sales', engine, if_exists='replace')\n"
            "\n"
            "def notify():\n"
            "    requests.post('https://partner.example.com/done', json={})\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for effect in file.effects:
            if effect.place.unit in ("<module>", "") or "callback" in effect.place.within:
                continue
            writes = [
                w
                for w in file.writes
                if w.place.unit == effect.place.unit and w.verb not in ("delete", "create", "drop")
            ]
            if writes and not effect.keyed:
                span = writes[0].place.span
                yield self.finding(
                    file,
                    effect.place,
                    f"`{effect.call}` is in the function that also stores rows: each retry of the load sends it again.",
                    "Make it a task of its own after the load, or an outbox row in the same transaction.",
                    declaration="effects=[…]  # released after the publish",
                    related=(Related(file.path, span.line, span.column, "the write"),),
                )
