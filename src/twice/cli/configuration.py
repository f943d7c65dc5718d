"""config show: every setting, its value and where it came from. Secrets stay hidden."""

from __future__ import annotations

from twice.cli.options import HERE, Format, Output, Where, boundary, print_json


@boundary
def show(output: Output = Format.text, where: Where = HERE) -> int:
    """Every setting, its value and where it came from. Secrets stay hidden."""
    from twice.config import explain, load

    rows = explain(load(where.folder, where.profile))
    if output is Format.json:
        print_json({"settings": [{"name": r.name, "value": r.value, "origin": r.origin} for r in rows]})
        return 0
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name.ljust(width)}  {row.value}  ({row.origin})")
    return 0
