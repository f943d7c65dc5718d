"""Write docs/reference/configuration.md from the settings' own declaration; `--check` only says whether it is right."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from twice.config.written import PREFIX, Written, WrittenConnection, WrittenEffects, WrittenSpark

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"

HEAD = """# Settings

Every key of `twice.toml`, or of `[tool.twice]` in `pyproject.toml`. This page is made from the code by
`scripts/render_configuration.py`. What the settings are for, with an example: [configuration](../configuration.md).
`twice config show` prints the value of each in your project, and where it came from.

A variable of the environment wins over the file. A text with commas is a list there; `TWICE_SPARK_CONF` and
`TWICE_CONNECTIONS` are JSON. A key that is not listed here is an error, with the nearest one that is.
"""

TAIL = """## `[profiles.NAME]`

The same keys as above, but `project`. Chosen by `--profile NAME` or `TWICE_PROFILE`; its values replace those of
the file, key by key.

## `[lint]`

What `twice lint` reads is on [its own page](../lint.md#settings).
"""

LEFT_OUT = ("spark", "effects", "connections")
TABLES: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("At the top", "", Written),
    ("`[spark]`", "spark", WrittenSpark),
    ("`[effects]`", "effects", WrittenEffects),
    ("`[connections.NAME]`", "connections", WrittenConnection),
)


def page() -> str:
    """The whole page. Fails where a setting has no description."""
    parts = [HEAD.strip()]
    for title, key, model in TABLES:
        rows = "\n".join(_row(key, name, field) for name, field in _fields(model))
        parts += [f"## {title}", f"| key | variable | default | meaning |\n|---|---|---|---|\n{rows}"]
    return "\n\n".join([*parts, TAIL.strip()]) + "\n"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    return ((name, field) for name, field in model.model_fields.items() if name not in LEFT_OUT)


def _row(table: str, name: str, field: FieldInfo) -> str:
    if not field.description:
        raise SystemExit(f"the setting {table}.{name} has no description")
    variable = "" if table == "connections" or name == "project" else f"`{PREFIX}{_joined(table, name).upper()}`"
    return f"| `{name}` | {variable} | {_default(field)} | {field.description} |"


def _joined(table: str, name: str) -> str:
    return f"{table}_{name}" if table else name


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ((), {}):
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(repr(each) for each in value)}]`".replace("'", '"')
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is not what would be written")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    command = "python scripts/render_configuration.py"
    print(f"docs/reference/configuration.md is not what the code says; run: {command}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
