from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.guards import ADDING
from twice.lint.rules.rule import Case, Rule

_KEYED = frozenset({"conflict_clause", "anti_join", "delete_atomic", "upsert_store", "looked_first"})


class CommitInLoop(Rule):
    """A commit inside the loop that loads rows or files.

    What it does
        Finds commits in loops around inserts that have no key and no record of what is done.

    Why it breaks a re-run
        A crash in the third of ten files leaves two loaded. The re-run loads these two again.

    When it is fine
        When the body is a keyed upsert, or the loop records what it has done in the same commit.
    """

    code = "TW503"
    name = "commit-in-loop"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "def load(conn, files):\n"
            "    cur = conn.cursor()\n"
            "    for name in files:\n"
            '        cur.execute("INSERT INTO sales SELECT * FROM staging WHERE file = %s", (name,))\n'
            "        conn.commit()\n",
            "job.py",
            lines=(5,),
        ),
    )
    GOOD = (
        Case(
            "def load(conn, files):\n"
            "    cur = conn.cursor()\n"
            "    for name in files:\n"
            '        cur.execute("INSERT INTO sales SELECT * FROM staging WHERE file = %s", (name,))\n'
            "    conn.commit()\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for fact in file.transactions:
            if fact.kind != "commit" or "loop" not in fact.place.within or file.language == "sql":
                continue
            own = [write for write in file.writes if write.place.unit == fact.place.unit and write.verb in ADDING]
            marks = [mark for mark in file.marks if mark.place.unit == fact.place.unit]
            if marks or any(write.guards & _KEYED for write in own):
                continue
            if own or not any(write.place.unit == fact.place.unit for write in file.writes):
                yield self.finding(
                    file,
                    fact.place,
                    "Each turn of the loop commits: after a crash in turn 3 the first two are stored, and "
                    "the re-run stores them again.",
                    "Commit once after the loop, or upsert on a key, or record each finished piece in the same commit.",
                )
