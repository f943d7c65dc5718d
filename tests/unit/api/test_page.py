"""docs/api.md is what the code says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import twice

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "api.md"


def test_the_page_of_the_api_is_current() -> None:
    wanted = runpy.run_path(str(ROOT / "scripts" / "render_api.py"))["page"]()
    assert PAGE.read_text(encoding="utf-8") == wanted, "run: python scripts/render_api.py"


def test_every_public_name_has_an_entry() -> None:
    titles = [line.removeprefix("### ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:4] == "### "]
    assert sorted(titles) == sorted(twice.__all__)


@pytest.mark.parametrize("name", twice.__all__)
def test_every_entry_says_what_it_is(name: str) -> None:
    entry = re.split(r"^##+ ", PAGE.read_text(encoding="utf-8").split(f"### {name}\n", 1)[1], flags=re.MULTILINE)[0]
    text = re.sub(r"```text.*?```", "", entry, flags=re.DOTALL).strip()
    assert text and not text.startswith(f"{name}("), "write a docstring; dataclass has made one"
