"""Pages and pictures that are made from the code, and from the demo's numbers, are what these say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / name))


@pytest.mark.parametrize(
    ("page", "script"),
    [("docs/reference/cli.md", "render_cli.py"), ("docs/reference/configuration.md", "render_configuration.py")],
)
def test_a_page_of_the_reference_is_what_the_code_says(page: str, script: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == _script(script)["page"](), f"run: python scripts/{script}"


def test_every_command_has_its_place_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    for heading in ("## twice run\n", "## twice backfill start\n", "## twice ledger rebuild\n", "## twice lint\n"):
        assert heading in page
    assert "| `-d`, `--date` `TEXT` | The logical date, e.g. 2026-06-09. |" in page


def test_the_picture_shows_the_numbers_of_the_demo() -> None:
    """`tests/acceptance/test_demo.py` plays the demo, and compares what it read with these numbers."""
    numbers = json.loads((ROOT / "docs/assets/incident.json").read_text(encoding="utf-8"))
    drawn = _script("draw_incident.py")["picture"](numbers)
    assert (ROOT / "docs/assets/incident.svg").read_text(encoding="utf-8") == drawn
    assert "79.6 % too high, exit 0" in drawn
    assert "79.6 % too high" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_picture_that_would_not_be_true_is_not_drawn() -> None:
    numbers = json.loads((ROOT / "docs/assets/incident.json").read_text(encoding="utf-8"))
    numbers["twice"]["jp"] = "0.01"
    with pytest.raises(SystemExit, match="would not be true"):
        _script("draw_incident.py")["picture"](numbers)
