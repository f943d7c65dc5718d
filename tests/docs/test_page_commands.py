"""Pages that are done by a reader: what they ask for is understood, compared, and still a command of twice."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.docs.test_pages import PAGES, ROOT
from tests.first_hour.compare import difference
from tests.first_hour.page import Command, File, steps, steps_in
from tests.first_hour.play import play, written

from twice.cli.main import app

OF_TODAY = [page for page in PAGES if page.parent.name != "decisions" and page.name != "CHANGELOG.md"]
"""The others say what was."""
FENCED = re.compile(r"^(`{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r"^```(?:sh|dockerfile|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE = textwrap.dedent(
    """
    ```python title="pipelines/orders.py"
    x = 1
    ```

    ```console
    $ cd pipelines && ls
    orders.py
    $ cat \\
    > orders.py
    x = 1

    $ (echo no >&2; exit 3)
    no
    $ echo $?
    3
    ```

    <!-- not run: needs a
         cluster -->
    ```console
    $ false
    ```

    ```python
    y = 2
    ```
    """
)


def test_a_page_is_files_and_commands_in_its_order() -> None:
    assert steps_in(PAGE) == [
        File(3, "pipelines/orders.py", "x = 1\n"),
        Command(7, "cd pipelines && ls", ("orders.py",)),
        Command(9, "cat \\\norders.py", ("x = 1",)),
        Command(13, "(echo no >&2; exit 3)", ("no",)),
        Command(15, "echo $?", ("3",)),
        Command(22, "false", (), "needs a cluster"),
    ]


def test_a_page_is_done_in_one_shell_from_its_folder_on(tmp_path: Path) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "folder"
    folder.mkdir()
    page.write_text(PAGE)
    played = list(play(page, folder, os.environ))
    assert [each.problem for each in played] == [""] * 5
    assert (folder / "pipelines" / "orders.py").read_text() == "x = 1\n"


def test_a_page_that_clones_this_repository_gets_this_checkout(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    clone = "git clone -q --depth 1 --no-checkout"
    page.write_text(f"""```console
$ {clone} <this repository> one && git -C one rev-parse HEAD
$ {clone} https://git.example.com/data/twice.git two && git -C two rev-parse HEAD
```
""")
    heads = [each.printed for each in play(page, tmp_path, os.environ)]
    mine = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [lines[-2] for lines in heads] == [mine.strip()] * 2


def test_the_first_command_that_does_something_else_ends_the_page_and_can_be_written_into_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo 1\n1\n$ echo two; pwd\ntwo\n2\n$ echo 3\n```\n")
    played = list(play(page, tmp_path, os.environ))
    assert [bool(each.problem) for each in played] == [False, True]
    assert "-2" in played[1].problem and "+/home/you" in played[1].problem
    done = written(page.read_text(), played)
    assert done == "```console\n$ echo 1\n1\n$ echo two; pwd\ntwo\n/home/you\n$ echo 3\n```\n"


def test_a_command_that_fails_is_a_problem_unless_the_page_asks_for_its_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo why; false\n```\n")
    (played,) = play(page, tmp_path, os.environ)
    assert played.problem == "exit 1, and no `$ echo $?` follows\nwhy\n"


def test_a_command_that_kills_its_process_group_leaves_the_shell_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ sh -c 'kill -9 0'\n$ echo $?\n137\n```\n")
    assert [each.problem for each in play(page, tmp_path, os.environ)] == ["", ""]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a: 1.2 s at 2026-06-09 12:00", "a:  37 s  at 2027-01-01T00:00:03Z"),
        ("attempt 0123abcd, 3 MB", "attempt ffffffff, 12.5 MB"),
        ("a … c", "a b b c"),
        ("a\n…\nc", "a\nb\nb\nc"),
        ("a\n…", "a"),
        ("a", "\na\n\n"),
        ("", "anything"),
    ],
)
def test_what_differs_between_readers_is_compared_by_its_form(shown: str, printed: str) -> None:
    assert difference(shown.splitlines(), printed.splitlines()) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("2026-06-09: 3 rows", "2026-06-09: 4 rows"),
        ("2026-06-09", "2026-06-10"),
        ("a\n…\nc", "a\nb"),
        ("a … c", "a c d"),
        ("a", ""),
        ("a", "a\nb"),
    ],
)
def test_what_a_reader_would_wonder_at_is_a_difference(shown: str, printed: str) -> None:
    assert difference(shown.splitlines(), printed.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_twice_on_a_page_exists_with_its_options(page: Path) -> None:
    blocks = [part for step in steps(page) if isinstance(step, Command) for part in re.split(r"&&|\||;|\n", step.text)]
    indented = re.findall(r"^ {4}(twice [a-z].*)$", page.read_text(), re.MULTILINE)
    for text in (*blocks, *indented):
        words = shlex.split(re.split(r" {2,}|#", text.strip())[0], comments=True)
        if words[:1] == ["twice"]:
            assert _unknown(words[1:]) == [], text


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_of_twice_within_a_sentence_or_a_script_exists_too(page: Path) -> None:
    for text in mentioned(page.read_text()):
        assert _unknown([word.rstrip(",;:.)") for word in shlex.split(text, comments=True)]) == [], f"twice {text}"


def test_commands_are_found_in_sentences_and_in_scripts() -> None:
    text = (
        "Run `twice\nrun --all`:\n\n```sh\nbin/twice backfill x \\\n  --to y\n```\n\n```yaml\n- run: twice lint\n```\n"
    )
    assert list(mentioned(text)) == ["backfill x    --to y", "lint", "run --all"]


def mentioned(text: str) -> Iterator[str]:
    """What follows `twice` in scripts (not of Python, where it is a module too), and in code within sentences."""
    for script in SCRIPT.findall(text):
        yield from re.findall(r"(?:^|[ /])twice ([a-z][^\n\"]*)", script.replace("\\\n", " "), re.MULTILINE)
    for code in re.findall(r"`twice ([a-z-][^`]*)`", FENCED.sub("", text).replace("\n", " ")):
        if not code.startswith("COMMAND"):
            yield code


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_a_page_that_is_done_step_by_step_has_no_command_that_nobody_runs(page: Path) -> None:
    """From its first console block on: then all of its commands stand in such blocks."""
    if not page.exists() or not steps(page):
        pytest.skip("it has no console block yet")
    text = page.read_text()
    assert re.findall(r"^```(?:sh|bash|shell)\b.*$", text, re.MULTILINE) == []
    assert re.findall(r"^ {4}(?:twice|make|pip|git|python|pytest|uv) .*$", text, re.MULTILINE) == []


def _unknown(words: list[str]) -> list[str]:
    """The words that name no command, or no option of it."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words:
        below = command.commands
        if words[0].startswith("-") and "start" not in below:
            break
        named = words[0] in below
        if not named and "start" not in below:
            return words[:1]
        command, words = below[words[0] if named else "start"], words[1:] if named else words
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.split("=")[0] for word in words[: words.index("--") if "--" in words else None]]
    return [word for word in given if word.startswith("-") and word not in {*options, "-h", "--help"}]
