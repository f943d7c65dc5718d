from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class UnseededRandom(Rule):
    """A sample, split or random column without a seed.

    What it does
        Finds sample, randomSplit, train_test_split, rand() and shuffle without a seed.

    Why it breaks a re-run
        Each run takes other rows, so neither results nor tests can be compared.

    When it is fine
        Generators of test data. A seed alone does not help Spark when partitions differ: sort first.
    """

    code = "TW204"
    name = "unseeded-random"
    severity = "warning"
    preview = True
    BAD = (Case("def pick(df):\n    return df.sample(0.1)\n", "job.py", lines=(2,)),)
    GOOD = (Case("def pick(df):\n    return df.sample(0.1, seed=7)\n", "job.py"),)

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for fact in file.ids:
            if fact.kind == "sample":
                yield self.finding(
                    file,
                    fact.place,
                    f"`{fact.call}` has no seed: the second run takes other rows.",
                    "Give a seed, or choose rows by a hash of their key.",
                )
