"""What a page asks its reader to do, in the order of the page: commands with what they print, files to write.

    ```console                              commands after `$ `, continued after `> `, and beneath each what it prints
    $ twice run orders --date 2026-06-09
    orders[2026-06-09]: published …
    ```

    ```python title="pipelines/orders.py"   a file, written into the folder that the commands are in by then
    from twice import …
    ```

- A command with nothing beneath it may print anything; one with lines beneath prints these and no others, standard
  output and error together. `…` stands for any text within a line, a line of its own for any lines. Durations, times,
  sizes and ids are compared by their form alone (`compare.py`), and the page's folder is `/home/you`.
- A command must succeed, unless `$ echo $?` follows it.
- `<this repository>` is this checkout, and so is the URL of a repository called twice that git clones or pip installs.
- `<!-- not run: REASON -->` in the line before a block leaves that block out: a command that needs a cluster, say.
- `<!-- hidden`, a block, `-->`: done like any other, and not shown to readers of the rendered page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>\w*)(?P<rest>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$", re.M | re.S)
_TITLE = re.compile(r'\btitle="([^"]+)"')
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+?) -->\n\Z", re.S)


@dataclass(frozen=True)
class Command:
    """`line` is where it stands on the page, counted from 1; `shown` what the page says that it prints."""

    line: int
    text: str
    shown: tuple[str, ...]
    not_run: str = ""


@dataclass(frozen=True)
class File:
    line: int
    path: str
    text: str


Step = Command | File


def steps(page: Path) -> list[Step]:
    """Of a page, in its order. A page without any gives an empty list."""
    return steps_in(page.read_text(encoding="utf-8"))


def steps_in(text: str) -> list[Step]:
    found: list[Step] = []
    for block in _FENCE.finditer(text):
        first = text.count("\n", 0, block.start("body")) + 1
        reason = _NOT_RUN.search(text, 0, block.start())
        title = _TITLE.search(block["rest"])
        if block["language"] == "console":
            found += _commands(block["body"], first, " ".join(reason["reason"].split()) if reason else "")
        elif title and not reason:
            found.append(File(first, title[1], block["body"]))
    return found


def _commands(body: str, first: int, not_run: str) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(body.splitlines(), first):
        if line.startswith("$ "):
            found.append(Command(number, line[2:], (), not_run))
        elif not found:
            raise ValueError(f"line {number}: a console block begins with a command, `$ …`, and not with {line!r}")
        elif line.startswith("> ") and not found[-1].shown:
            last = found[-1]
            found[-1] = Command(last.line, f"{last.text}\n{line[2:]}", (), not_run)
        else:
            last = found[-1]
            found[-1] = Command(last.line, last.text, (*last.shown, line), not_run)
    return [Command(each.line, each.text, _trimmed(each.shown), not_run) for each in found]


def _trimmed(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Without the empty lines that keep one command from the next."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]
