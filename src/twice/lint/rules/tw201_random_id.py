from __future__ import annotations

import re
from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule

_OF_THE_RUN = re.compile(r"run|batch|load|process|execution|pipeline|job", re.IGNORECASE)
"""An id of the run, not of the row: rows of two runs differ by it, but each still has its own key."""


class RandomId(Rule):
    """A random identifier is stored with the rows.

    What it does
        Finds `uuid4()`, `NEWID()`, `GENERATE_UUID()`, `random` and `secrets` where the value becomes a
        column, a key of a row, a batch id or the id a function returns.

    Why it breaks a re-run
        The same order gets another id each time it is loaded. Nothing can recognise it: merges insert it
        again, rows that refer to the old id lose their partner.

    When it is fine
        Names of temporary tables and files, trace and request ids. Their usual names are not reported.
    """

    code = "TW201"
    name = "random-id"
    severity = "error"
    BAD = (
        Case(
            "from pyspark.sql import functions as F\n"
            "\n"
            "def build(df):\n"
            '    return df.withColumn("id", F.expr("uuid()"))\n',
            lines=(4,),
        ),
        Case(
            "import uuid\n"
            "\n"
            "def rows(orders):\n"
            "    return [{'order_id': str(uuid.uuid4()), 'amount': o} for o in orders]\n",
            lines=(4,),
        ),
        Case(
            "INSERT INTO fact_sales (sale_id, amount)\n"
            "SELECT gen_random_uuid(), amount FROM staging\n"
            "ON CONFLICT DO NOTHING;\n",
            "f.sql",
            lines=(2,),
        ),
    )
    GOOD = (
        Case("import uuid\n\ndef key(order):\n    return uuid.uuid5(uuid.NAMESPACE_URL, order['number'])\n"),
        Case("import uuid\n\ntmp_table = f'tmp_{uuid.uuid4().hex}'\n"),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for fact in file.ids:
            if fact.kind != "random":
                continue
            column = f"`{fact.column}`" if fact.column else "an id"
            yield self.finding(
                file,
                fact.place,
                f"`{fact.call}` gives {column} a new value on each run: order 42 is stored as a1f… the first time and "
                "as 9c0… the second, so the second run cannot find its own rows.",
                "Derive the id from the business key: a hash of it, or `uuid5(namespace, key)`.",
                declaration=f'.withColumn("{fact.column or "id"}", surrogate_key("<business key columns>"))',
                severity="warning" if _OF_THE_RUN.search(fact.column) else "error",
            )
