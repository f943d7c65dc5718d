"""Mutants of twice: the source with one protection taken away, and the tests that must go red for it.

    python -m tests.mutants.mutants [--needs server --needs jvm] [NAME…]

The list is mutants.toml. Each mutant is a whole copy of the source with a few texts replaced; the named tests run on
it in a process of their own. That process is forked from one that has loaded pytest and the libraries already, but not
twice: loading them again for every mutant would take most of the time. One line of JSON is printed for each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
COMMAND = (sys.executable, "-m", "tests.mutants.mutants")
"""From the root."""
LIBRARIES = ("alembic.command", "hypothesis.stateful", "pytest", "sqlalchemy", "sqlglot", "typer", "pydantic_settings")
RED = 1
"""How pytest ends when tests failed. Anything else (no such test, a module that cannot be imported) kills nothing."""
DEFECT = 99
"""How a child ends that did not come to its tests."""


@dataclass(frozen=True)
class Edit:
    file: str
    there: str
    without: str


@dataclass(frozen=True)
class Mutant:
    """`needs`: nothing, a PostgreSQL `server`, or a `jvm`."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    needs: str = ""


@dataclass(frozen=True)
class MutantResult:
    """`output` is the end of what pytest printed, unless the mutant was killed."""

    name: str
    killed: bool
    seconds: float
    output: str = ""


def all_mutants() -> tuple[Mutant, ...]:
    found = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return tuple(
        Mutant(
            each["name"],
            tuple(Edit(edit["file"], edit["there"], edit["without"]) for edit in each.get("edit", [each])),
            tuple(each["tests"]),
            each.get("needs", ""),
        )
        for each in found
    )


def mutated(mutant: Mutant) -> dict[str, str]:
    """The files that the mutant has otherwise. Raises if a protection does not stand where the list says."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (ROOT / "src" / "twice" / edit.file).read_text(encoding="utf-8")
        if text.count(edit.there) != 1:
            raise ValueError(f"{mutant.name}: not once in {edit.file}: {edit.there.strip()}")
        texts[edit.file] = text.replace(edit.there, edit.without)
    return texts


def write_source(mutant: Mutant, folder: Path) -> Path:
    """A whole copy of the source, without the protection."""
    source = folder / "src"
    # With the compiled modules: only what is changed must be compiled again.
    shutil.copytree(ROOT / "src", source)
    for file, text in mutated(mutant).items():
        (source / "twice" / file).write_text(text, encoding="utf-8")
    return source


def try_to_kill(mutant: Mutant) -> MutantResult:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twice-mutant-") as folder:
        source, log = write_source(mutant, Path(folder)), Path(folder) / "log"
        child = os.fork()
        if child == 0:
            code = DEFECT
            try:
                code = _run_tests(mutant, source, log)
            except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's code
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        killed = os.waitstatus_to_exitcode(status) == RED
        output = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return MutantResult(mutant.name, killed, round(time.monotonic() - started, 2), "" if killed else output[-3000:])


def _run_tests(mutant: Mutant, source: Path, log: Path) -> int:
    """In the child. `PYTHONPATH`, for the processes that the tests start."""
    import pytest

    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(source)
    sys.path.insert(0, str(source))
    # Loaded before pytest could rewrite its asserts, as above: no mutant is judged by hypothesis' own asserts.
    loaded = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *loaded, *mutant.tests]))
    sys.stdout.flush()
    return code if _loaded(source) else DEFECT


def _loaded(source: Path) -> bool:
    """Whether the tests ran on the mutant, not on the source itself."""
    loaded = sys.modules.get("twice")
    return loaded is not None and Path(str(loaded.__file__)).is_relative_to(source)


def _preload() -> None:
    for name in LIBRARIES:
        __import__(name)
    assert not any(name.split(".")[0] == "twice" for name in sys.modules), "every mutant must load its own twice"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--needs", action="append", default=[], help="also those that need this; without names")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    chosen = [
        mutant
        for mutant in all_mutants()
        if (mutant.name in options.names if options.names else mutant.needs in ("", *options.needs))
    ]
    _preload()
    results = [_printed(try_to_kill(mutant)) for mutant in chosen]
    return 0 if all(result.killed for result in results) else 1


def _printed(result: MutantResult) -> MutantResult:
    line: dict[str, Any] = asdict(result)
    print(json.dumps(line), flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
