"""Feeds the linter damaged copies of the corpus: it must neither crash nor take more than two seconds on any.

    python scripts/soak_lint.py --rounds 20000 --seed 1

Round N of a seed is the same text on every machine, so a failure is repeated with --only N.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twice.lint.run import lint_text
from twice.lint.settings import LintSettings

CORPUS = Path(__file__).parent.parent / "tests" / "lint_corpus"
SLOWEST = 2.0
"""Seconds of processor time: waiting for a busy machine is not the linter's fault."""
SUFFIXES = (".py", ".sql", ".hql", ".ipynb")
TOKENS = (
    *("'", '"', "'''", '"""', "(", ")", "[", "]", "{", "}", "{{", "}}", "{%", "%}", "{#", "#}", "`", ";", "--"),
    *("/*", "*/", "\\", "\n", "\r\n", "\t", "\x00", "\ufeff", "\u2028", "é", "日", "\U0001f600", "ʔ", "\ue000"),
    *("$$", "${x}", "%s", ":x", "\\ud83d", '"source": [', "SELECT", "INSERT INTO t", "MERGE INTO t USING"),
    *("WITH x AS (", "BEGIN;", "COMMIT;", "CASE WHEN", "DELETE FROM", "{{ config(materialized='incremental') }}"),
    *("{% if is_incremental() %}", "{% endif %}", "{% for x in y %}", "{{ this }}", "# COMMAND ----------"),
    *("# MAGIC %sql", "# Databricks notebook source", "%%sql", "%sql SELECT 1", "!ls", "%time ", "def f(", "lambda: "),
    *("f'{x", "f'{x!r:>{y}}'", "async ", "await x", "return", "    ", "with a as b:", "try:", "except:", "execute("),
    *("# twice: ignore[TW301]", "-- twice: ignore", "datetime.now()", '.write.mode("append")'),
)
DEEP = (
    *("(", "[", "{", "{{ ", "not ", "-", "f(", "SELECT (", "if x:\n ", "{% if x %}", "a.", "[1,", "/*", "'"),
    "CASE WHEN a THEN ",
)


@dataclass(frozen=True)
class Input:
    number: int
    path: str
    text: str


@dataclass(frozen=True)
class Failure:
    number: int
    path: str
    what: str


def inputs(rounds: int, seed: int, first: int = 0) -> Iterator[Input]:
    """Damaged texts; each depends on the seed and its number only."""
    for number in range(first, first + rounds):
        chance = random.Random(f"{seed}:{number}")
        path, text = chance.choice(_corpus())
        for _ in range(chance.choice((1, 1, 2, 3, 6))):
            text = chance.choice(MUTATIONS)(text, chance)
        if chance.random() < 0.15:
            path = str(Path(path).with_suffix(chance.choice(SUFFIXES)))
        yield Input(number, path, text)


def tried(given: Input) -> Failure | None:
    """None if the linter bore the input."""
    started = time.process_time()
    try:
        lint_text(given.path, given.text, LintSettings(preview=True, cache=False))
    except RecursionError:
        # Allowed: the run turns it into a notice about the file.
        pass
    except Exception:  # noqa: BLE001 - a crash of any kind is what is looked for
        return Failure(given.number, given.path, traceback.format_exc(limit=-3))
    spent = time.process_time() - started
    return Failure(given.number, given.path, f"took {spent:.1f} s") if spent > SLOWEST else None


@cache
def _corpus() -> tuple[tuple[str, str], ...]:
    files = sorted(path for path in CORPUS.rglob("*") if path.suffix in SUFFIXES and path.parent != CORPUS)
    return tuple((path.relative_to(CORPUS).as_posix(), path.read_text(encoding="utf-8")) for path in files)


def _cut(text: str, chance: random.Random) -> str:
    start = chance.randrange(len(text) + 1)
    return text[:start] + text[start + chance.randrange(1, 80) :]


def _end(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _insert(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(TOKENS) + text[at:]


def _replace(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(TOKENS) + text[at + 1 :]


def _exchange_lines(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) > 1:
        a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def _repeat_lines(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    start = chance.randrange(len(lines) + 1)
    block = lines[start : start + chance.randrange(1, 6)]
    return "".join(lines[:start] + block * chance.randrange(2, 20) + lines[start:])


def _splice(text: str, chance: random.Random) -> str:
    _, other = chance.choice(_corpus())
    return text[: chance.randrange(len(text) + 1)] + other[chance.randrange(len(other)) :]


def _deep(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(DEEP) * chance.choice((5, 40, 300)) + text[at:]


def _one_line(text: str, chance: random.Random) -> str:
    return text.replace("\n", chance.choice((" ", "", "\r", "; ")))


def _dedent(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines) + 1)
    return "".join(line.lstrip() if at <= number < at + 5 else line for number, line in enumerate(lines))


def _word(text: str, chance: random.Random) -> str:
    """One word in place of another of the same file: most such files still parse, and mean nothing."""
    words = list(re.finditer(r"\w+", text))
    if not words:
        return text
    old, new = chance.choice(words), chance.choice(words)
    return text[: old.start()] + new[0] + text[old.end() :]


def _case(text: str, chance: random.Random) -> str:
    return text.upper() if chance.random() < 0.5 else text.swapcase()


MUTATIONS = (
    *(_cut, _cut, _end, _insert, _insert, _insert, _replace, _replace, _exchange_lines, _repeat_lines),
    *(_splice, _deep, _one_line, _dedent, _case, _word, _word, _word, _word, _word),
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat one round and print its text")
    parser.add_argument("--result", type=Path, help="write the counts to this file")
    options = parser.parse_args(arguments)
    first, rounds = (0, options.rounds) if options.only is None else (options.only, 1)
    failures = []
    started = time.monotonic()
    for given in inputs(rounds, options.seed, first):
        if options.only is not None:
            print(f"{given.path}\n{given.text}")
        failure = tried(given)
        if failure is not None:
            failures.append(failure)
            print(f"round {failure.number} ({failure.path}): {failure.what}")
    seconds = time.monotonic() - started
    print(f"{rounds} inputs, {len(failures)} failures, {seconds:.0f} s")
    if options.result is not None:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        result = {
            "what": "damaged copies of the corpus through the linter: no crash, none over two seconds",
            "commit": commit,
            "seed": options.seed,
            "counts": {"inputs": rounds},
            "violations": [f"round {f.number} ({f.path}): {f.what}" for f in failures],
            "minutes": round(seconds / 60, 1),
        }
        options.result.parent.mkdir(parents=True, exist_ok=True)
        options.result.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
