"""Whether the folder where a table is to be made is free. What is in it and not ours is never taken over.

A Delta table made over a Parquet dataset would show its own rows only, Parquet readers would see both, and VACUUM would
delete the old files. What killed attempts of ours have left does not count, nor what every reader passes over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from twice.errors import DeclarationError

_OURS = re.compile(r"twice-[A-Za-z0-9_-]{1,64}-(part|cdc)-.+\.parquet")
_LOG = "_delta_log"


def check_free(name: str, folder: Path, parents: int) -> None:
    """Refuse to make the table `name` in a folder that holds anything else, or inside the folder of another table (so
    many folders above it are the warehouse's)."""
    for above in list(folder.parents)[:parents]:
        if (above / _LOG).is_dir():
            raise _taken(name, f"{above} is a table, and its VACUUM would delete files of a table inside it")
    found = next(_foreign(folder), None)
    if found is not None:
        raise _refusal(name, folder, found)


def _foreign(folder: Path) -> Iterator[Path]:
    """Every file below that is not ours, as a path below the folder; and every link to a folder: it is not followed,
    and readers do."""
    if folder.is_file():
        yield Path(folder.name)
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not _passed_over(each))
        inside = Path(at).relative_to(folder)
        ours = all("=" in part for part in inside.parts)
        yield from (inside / each for each in folders if (Path(at) / each).is_symlink())
        for file in sorted(files):
            if not _passed_over(file) and not (ours and _OURS.fullmatch(file)):
                yield inside / file


def _passed_over(name: str) -> bool:
    """By Spark's readers and by VACUUM: `_twice`, a log without commits, `.hidden`; but not a partition `_a=1`."""
    return name.startswith((".", "_")) and "=" not in name


def _refusal(name: str, folder: Path, found: Path) -> DeclarationError:
    for below in found.parents[:-1]:
        if (folder / below / _LOG).is_dir():
            return _taken(name, f"{folder} is the folder of other tables, e.g. {below}")
    if (folder / found).is_symlink():
        return _taken(name, f"{folder} holds a link that is no file of twice, {found}")
    if (folder / "metadata").is_dir() and any((folder / "metadata").glob("*.metadata.json")):
        return _taken(name, f"{folder} holds an Iceberg table")
    if (folder / ".hoodie").is_dir():
        return _taken(name, f"{folder} holds a Hudi table")
    if found.suffix != ".parquet":
        return _taken(name, f"{folder} holds files that are no table of twice, e.g. {found}")
    columns = [part.partition("=")[0] for part in found.parent.parts if "=" in part]
    cut = f" PARTITIONED BY ({', '.join(f'{column} …' for column in columns)})" if columns else ""
    return _taken(
        name,
        f"{folder} holds Parquet files that are no Delta table, e.g. {found}",
        f"To keep their rows, make them one first: CONVERT TO DELTA parquet.`{folder}`{cut}. ",
    )


def _taken(name: str, what: str, first: str = "") -> DeclarationError:
    return DeclarationError(
        f"{name} cannot be made: {what}",
        now="Nothing was written.",
        fix=f"{first}Give the task another target, or move away what is there.",
    )
