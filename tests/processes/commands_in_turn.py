"""Several commands on one JVM, as a person would type them one after the other: `-- run … -- status …`. Each is
announced by its number, and its exit code is printed after it."""

from __future__ import annotations

import sys
from itertools import groupby

from twice.cli.main import app

BETWEEN = "--"


def main(words: list[str]) -> None:
    commands = [list(group) for between, group in groupby(words, lambda word: word == BETWEEN) if not between]
    for number, command in enumerate(commands):
        print(f"$ {number}", flush=True)
        code: object = 0
        try:
            app(command, prog_name="twice")
        except SystemExit as end:
            code = end.code
        print(f"exit {code}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
