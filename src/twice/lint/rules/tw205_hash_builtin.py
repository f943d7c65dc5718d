from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class HashBuiltin(Rule):
    """Python's hash() is used for something that outlives the process.

    What it does
        Finds calls of the builtin hash().

    Why it breaks a re-run
        hash() of text differs from process to process: a key made with it never matches itself, a row lands
        in another bucket.

    When it is fine
        Integers, and `__hash__` methods.
    """

    code = "TW205"
    name = "hash-builtin"
    severity = "warning"
    preview = True
    BAD = (Case("def bucket(key, n):\n    return hash(key) % n\n", "job.py", lines=(2,)),)
    GOOD = (
        Case(
            "import hashlib\n\ndef bucket(key, n):\n    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % n\n",
            "job.py",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for fact in file.ids:
            if fact.kind == "hash":
                yield self.finding(
                    file,
                    fact.place,
                    f"`{fact.call}` gives another number in each process: the same key is 17 today and 803 tomorrow.",
                    "Use hashlib, or xxhash64 in Spark.",
                    declaration='surrogate_key("<columns>")',
                )
