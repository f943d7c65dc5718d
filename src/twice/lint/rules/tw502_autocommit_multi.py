from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class AutocommitMulti(Rule):
    """Several changes on a connection that commits each alone.

    What it does
        Finds autocommit switched on where more than one INSERT, UPDATE, DELETE or MERGE is run.

    Why it breaks a re-run
        A failure after the second of four statements leaves half of the work, and the re-run starts on top
        of it.

    When it is fine
        When the statements are independent, or an explicit BEGIN is in their text.
    """

    code = "TW502"
    name = "autocommit-multi"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "import psycopg2\n"
            "\n"
            "def load(dsn):\n"
            "    conn = psycopg2.connect(dsn)\n"
            "    conn.autocommit = True\n"
            "    cur = conn.cursor()\n"
            '    cur.execute("UPDATE a SET x = 1 WHERE k = 2")\n'
            '    cur.execute("DELETE FROM b WHERE k = 2")\n',
            "job.py",
            lines=(5,),
        ),
    )
    GOOD = (
        Case(
            "import psycopg2\n"
            "\n"
            "def load(dsn):\n"
            "    conn = psycopg2.connect(dsn)\n"
            "    cur = conn.cursor()\n"
            '    cur.execute("UPDATE a SET x = 1 WHERE k = 2")\n'
            '    cur.execute("DELETE FROM b WHERE k = 2")\n'
            "    conn.commit()\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        if any(fact.kind == "begin" for fact in file.transactions):
            return
        for fact in file.transactions:
            if fact.kind != "autocommit":
                continue
            changes = [
                write
                for write in file.writes
                if write.verb in ("insert", "update", "delete", "merge") and write.place.transaction == ""
            ]
            if len(changes) > 1:
                yield self.finding(
                    file,
                    fact.place,
                    f"Autocommit: {len(changes)} statements commit one by one. A failure in the middle "
                    "leaves half of them done.",
                    "Use one transaction with one commit at the end.",
                )
                return
