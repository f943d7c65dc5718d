"""Scratch folders of Spark: one for each process, named after it, so that what a killed one left can be told apart."""

from __future__ import annotations

import shutil
from pathlib import Path

from twice.runtime.holder import is_gone, this_process

_WRITTEN = str.maketrans({"/": "+", ":": "~", ",": "-"})  # Spark takes a comma for the end of a folder's name
_READ = str.maketrans({"+": "/", "~": ":"})


def scratch_name() -> str:
    return this_process().translate(_WRITTEN)


def clear_scratch(folder: Path) -> int:
    """Delete the scratch folders of processes that are surely gone; how many. Those of other machines and of processes
    at work stay. A second call finds none. Dying here leaves the rest to the next call."""
    if not folder.is_dir():
        return 0
    left = [each for each in folder.iterdir() if each.is_dir() and is_gone(each.name.translate(_READ))]
    for each in left:
        shutil.rmtree(each, ignore_errors=True)  # another gc may be at it
    return len(left)
