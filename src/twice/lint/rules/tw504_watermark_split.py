from __future__ import annotations

from collections.abc import Iterator

from twice.lint.facts import MarkFact, WriteFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding, Related, Severity
from twice.lint.rules.rule import Case, Rule
from twice.lint.vocabulary import is_mark

_WRITES = ("append", "insert", "copy", "merge", "overwrite", "update")
_REPEATABLE = frozenset({"conflict_clause", "upsert_store", "anti_join", "delete_before", "delete_atomic"})


class WatermarkSplit(Rule):
    """How far a job got is stored apart from the rows it loaded.

    What it does
        Finds watermarks, last-run stamps, checkpoints and `Variable.set` that are stored in another
        transaction than the load, or before it.

    Why it breaks a re-run
        Mark after load: a crash in between loads the same rows again. Mark before load: a crash in between
        loses rows for ever.

    When it is fine
        Stored in the same transaction; or after a load that may safely be repeated (a keyed merge): then it
        is information.
    """

    code = "TW504"
    name = "watermark-split"
    severity = "error"
    BAD = (
        Case(
            "from airflow.models import Variable\n"
            "\n"
            "def load(df, engine, newest):\n"
            '    df.to_sql("events", engine, if_exists="append")\n'
            '    Variable.set("events_last_loaded", newest)\n',
            lines=(5,),
        ),
        Case(
            "import psycopg2\n\ndef load(conn, rows):\n    cur = conn.cursor()\n"
            '    cur.executemany("INSERT INTO events VALUES (%s, %s)", rows)\n    conn.commit()\n'
            '    cur.execute("UPDATE etl_watermark SET last_run = now() WHERE job = 1")\n    conn.commit()\n',
            lines=(7,),
        ),
    )
    GOOD = (
        Case(
            "import psycopg2\n"
            "\n"
            "def load(conn, rows, newest):\n"
            "    cur = conn.cursor()\n"
            '    cur.executemany("INSERT INTO events VALUES (%s, %s) ON CONFLICT (id) DO UPDATE '
            'SET v = EXCLUDED.v", rows)\n'
            '    cur.execute("UPDATE etl_watermark SET last_value = %s", (newest,))\n'
            "    conn.commit()\n",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for mark in file.marks:
            if mark.kind != "mark" or "except" in mark.place.within or "callback" in mark.place.within:
                continue
            loads = [
                write
                for write in file.writes
                if write.verb in _WRITES
                and write.engine != "file"
                and not is_mark(write.target)
                and not write.guards & {"temporary", "log"}
                and write.place.span.line != mark.place.span.line
            ]
            near = [write for write in loads if write.place.unit == mark.place.unit]
            if not near and mark.place.transaction.startswith("call:"):
                near = loads  # stored by itself, from another function or task than the load
            if not near:
                continue
            nearest = min(near, key=lambda write: abs(write.place.order - mark.place.order))
            severity = _severity(mark, nearest)
            if severity is not None:
                yield self._of(file, mark, nearest, severity)

    def _of(self, file: FileFacts, mark: MarkFact, load: WriteFact, severity: Severity) -> Finding:
        before = mark.place.order < load.place.order
        what = (
            "before the rows are: a crash in between skips them for ever."
            if before
            else "after the rows, in another commit: a crash in between loads them again."
        )
        return self.finding(
            file,
            mark.place.happens,
            f"The mark `{mark.name}` is stored {what}",
            "Store the mark in the transaction of the load, and let it be the largest value that was really loaded.",
            declaration='@task(…, scope=Since("<cursor column>", initial=…), write=merge(key=[…]))  # one commit',
            related=(Related(file.path, load.place.span.line, load.place.span.column, "the load"),),
            severity=severity,
        )


def _severity(mark: MarkFact, load: WriteFact) -> Severity | None:
    one, other = mark.place, load.place
    if one.transaction == other.transaction and one.transaction not in ("", "?"):
        return None
    after = one.order >= other.order
    if (after and load.guards & _REPEATABLE) or (load.verb in ("merge", "overwrite") and after):
        return "info"
    if "?" in (one.transaction, other.transaction) and "" not in (one.transaction, other.transaction):
        return "warning"
    return "error"
