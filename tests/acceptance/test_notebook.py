"""The notebook of examples/notebook, executed as Jupyter does: every result shows itself, as it is stored there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from scripts.render_notebook import NOTEBOOK, execute
from tests.first_hour.compare import difference


@pytest.mark.long
def test_every_result_of_the_notebook_is_a_table_that_says_what_is_stored(tmp_path: Path) -> None:
    """Stored by `python -m scripts.render_notebook`."""
    stored: Any = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    executed = execute(tmp_path)
    results = 0
    for before, after in zip(stored.cells, executed.cells, strict=True):
        if before.cell_type == "code":
            assert difference(_lines(before), _lines(after)) == "", before.source
            assert bool(_lines(before)) == bool(_lines(after)), before.source
        for output in after.get("outputs", ()):
            results += 1
            assert "<table" in output.data["text/html"], after.source
            assert "color" not in output.data["text/html"]  # the notebook's own fit, light or dark
    assert results == 9


def _lines(cell: Any) -> list[str]:
    """What the cell shows, tag by tag."""
    shown = [output.data[kind] for output in cell.outputs for kind in ("text/plain", "text/html")]
    return "\n".join(shown).replace("><", ">\n<").splitlines()
