"""Execute examples/notebook/revenue.ipynb in an empty folder and store what it shows; a test compares the two."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook" / "revenue.ipynb"
PATIENCE_S = 110


def execute(folder: Path) -> Any:
    """The notebook as it is after a run in this folder, with this environment's `twice`; the folder is shown as
    `/home/you`. What a kernel says to its terminal is no result, and is left out."""
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=PATIENCE_S, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with patch.dict(os.environ, {"PATH": path}):
        client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_shown(output, folder) for output in cell.outputs if output.output_type != "stream"]
    return notebook


def _shown(output: Any, folder: Path) -> Any:
    for kind, text in output.get("data", {}).items():
        output.data[kind] = text.replace(str(folder.resolve()), "/home/you").replace(str(folder), "/home/you")
    return output


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        notebook = execute(Path(folder))
    NOTEBOOK.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
