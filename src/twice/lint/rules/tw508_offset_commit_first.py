from __future__ import annotations

from collections.abc import Iterator

from twice.lint.facts import MarkFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class OffsetCommitFirst(Rule):
    """A consumer's offset moves before the row is stored, or by a timer.

    What it does
        Finds consumers with auto-commit, and commits before the write, in code that stores what it reads.

    Why it breaks a re-run
        A crash after the commit and before the write loses messages; the other way round they come twice,
        so the write needs a key.

    When it is fine
        Consumers that only look.
    """

    code = "TW508"
    name = "offset-commit-first"
    severity = "warning"
    preview = True
    BAD = (
        Case(
            "from kafka import KafkaConsumer\n"
            "\n"
            "def run(cur):\n"
            "    consumer = KafkaConsumer('orders', enable_auto_commit=True)\n"
            "    for m in consumer:\n"
            '        cur.execute("INSERT INTO orders VALUES (%s) ON CONFLICT DO NOTHING", (m.value,))\n',
            "job.py",
            lines=(4,),
        ),
    )
    GOOD = (
        Case(
            "from kafka import KafkaConsumer\n"
            "\n"
            "def run(cur, conn):\n"
            "    consumer = KafkaConsumer('orders', enable_auto_commit=False)\n"
            "    for m in consumer:\n"
            '        cur.execute("INSERT INTO orders VALUES (%s) ON CONFLICT DO NOTHING", (m.value,))\n'
            "        conn.commit()\n"
            "        consumer.commit()\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        stores = [write for write in file.writes if write.verb in ("insert", "append", "merge", "copy", "update")]
        for mark in file.marks:
            if mark.kind == "auto_offset" and (stores or file.effects):
                yield self.finding(
                    file,
                    mark.place,
                    "Offsets are committed by a timer: a crash between the timer and the write loses the "
                    "messages in between.",
                    "Switch auto-commit off and commit after the write; give the write a key.",
                )
            if mark.kind == "offset_first":
                yield self._early(file, mark)
            if mark.kind == "offset":
                later = [w for w in stores if w.place.unit == mark.place.unit and w.place.order > mark.place.order]
                if later and not any(
                    w.place.unit == mark.place.unit and w.place.order < mark.place.order for w in stores
                ):
                    yield self._early(file, mark)

    def _early(self, file: FileFacts, mark: MarkFact) -> Finding:
        return self.finding(
            file,
            mark.place,
            "The offset is committed before the row is written: a crash in between loses the message.",
            "Write first, with a key, then commit the offset.",
        )
