from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class EffectInTransform(Rule):
    """Something is sent to another system from inside a transformation.

    What it does
        Finds effects in UDFs, map, foreach, foreachPartition and mapPartitions.

    Why it breaks a re-run
        The engine runs a task again after a lost executor, and twice at once when it speculates; a frame
        used twice is computed twice. Each time it is sent again.

    When it is fine
        Never; collect what must be sent in a table and send it from one place.
    """

    code = "TW803"
    name = "effect-in-transform"
    severity = "error"
    preview = True
    BAD = (
        Case(
            "import requests\n"
            "from pyspark.sql import SparkSession\n"
            "\n"
            "def send(row):\n"
            "    requests.post('https://partner.example.com/x', json=row)\n"
            "\n"
            "def run(df):\n"
            "    df.rdd.foreach(send)\n",
            "job.py",
            lines=(5,),
        ),
    )
    GOOD = (
        Case(
            "import requests\n"
            "from pyspark.sql import SparkSession\n"
            "\n"
            "def run(df, key):\n"
            "    rows = df.collect()\n"
            "    requests.post('https://partner.example.com/x', json=rows, "
            "headers={'Idempotency-Key': key})\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for effect in file.effects:
            if "transform" in effect.place.within and not effect.keyed:
                yield self.finding(
                    file,
                    effect.place,
                    f"`{effect.call}` runs inside a transformation: every task attempt and every "
                    "recomputation sends it again.",
                    "Write what must be sent to an outbox table, and send it from one place after the commit.",
                    declaration="effects=[…]  # sent once per published slice",
                )
