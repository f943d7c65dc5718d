"""Draw docs/assets/incident.svg from the numbers that the demo read from its tables; `--check` only compares.

python examples/worldshop/demo.py --numbers docs/assets/incident.json     plays it, and writes the numbers
python scripts/draw_incident.py                                           draws them
"""

from __future__ import annotations

import argparse
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
NUMBERS, PICTURE = ASSETS / "incident.json", ASSETS / "incident.svg"

ORDER = ("us", "eu", "uk", "jp", "br")
"""As the naive job appends them."""
LEFT, WIDTH, BAR = 24, 712, 34
TOO_MUCH, RIGHT, PLAIN, INK, GREY = "#c2410c", "#15803d", "#64809c", "#17324d", "#5b6b7b"
SHADES = ("#2f6ea5", "#4a84b6", "#6b9cc6", "#8fb4d5", "#b4cde3")


def picture(numbers: dict[str, Any]) -> str:
    """The whole SVG."""
    found = {
        name: [Decimal(numbers[name].get(region, "0")) for region in ORDER] for name in ("orders", "naive", "twice")
    }
    sold, naive, ours = found["orders"], found["naive"], found["twice"]
    doubled = [table - order for table, order in zip(naive, sold, strict=True)]
    percent = (_sum(naive) / _sum(sold) - 1) * 100
    scale = Decimal(WIDTH) / _sum(naive)
    regions = numbers["killed_after"]
    parts = [
        _text(34, f"One day's revenue, {numbers['day']}. Each job is killed once and started again.", 17, INK, "600"),
        _row(84, "sold", f"${_sum(sold):,.2f}", "the orders, added up", PLAIN),
        _bar(94, sold, scale),
        _row(164, "a loop of appends", f"${_sum(naive):,.2f}", f"{percent:.1f} % too high, exit 0", TOO_MUCH),
        _bar(174, sold, scale),
        _again(
            174,
            doubled,
            _sum(sold),
            scale,
            f"{', '.join(ORDER[:regions])}: appended before the kill, and again after it",
        ),
        _row(264, "the same job with twice", f"${_sum(ours):,.2f}", _claim(_sum(ours), _sum(sold)), RIGHT),
        _bar(274, ours, scale),
    ]
    style = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 334" role="img" style="{style}">'
    title = (
        f"<title>After a kill and a retry, appended revenue is {percent:.1f} % too high; with twice it is exact</title>"
    )
    frame = '<rect x="1" y="1" width="758" height="332" rx="10" fill="#ffffff" stroke="#d5dde5"/>'
    return "\n".join([head, title, frame, *parts, "</svg>"]) + "\n"


def _sum(amounts: list[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


def _claim(table: Decimal, sold: Decimal) -> str:
    if table != sold:
        raise SystemExit(f"the picture would not be true: the table holds {table}, sold was {sold}")
    return "exact to the cent, exit 0"


def _row(y: int, who: str, amount: str, claim: str, colour: str) -> str:
    return (
        f'<text x="{LEFT}" y="{y}" font-size="15" fill="{INK}">{who}</text>'
        f'<text x="{LEFT + WIDTH}" y="{y}" font-size="15" fill="{INK}" text-anchor="end">'
        f'<tspan font-weight="600">{amount}</tspan>'
        f'<tspan dx="14" font-weight="600" fill="{colour}">{claim}</tspan></text>'
    )


def _bar(y: int, amounts: list[Decimal], scale: Decimal) -> str:
    parts, at = [], Decimal(LEFT)
    for region, amount, shade in zip(ORDER, amounts, SHADES, strict=True):
        width = amount * scale
        colour = "#ffffff" if shade in SHADES[:3] else INK
        parts.append(f'<rect x="{at:.1f}" y="{y}" width="{width - 1:.1f}" height="{BAR}" fill="{shade}"/>')
        parts.append(_label(at + width / 2, y, region, colour))
        at += width
    return "".join(parts)


def _again(y: int, amounts: list[Decimal], after: Decimal, scale: Decimal, text: str) -> str:
    """What is in the table a second time."""
    at, width = LEFT + after * scale, _sum(amounts) * scale
    return (
        f'<rect x="{at:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="#fde6dc" stroke="{TOO_MUCH}" '
        f'stroke-width="1.5" stroke-dasharray="5 3"/>'
        f"{_label(at + width / 2, y, 'again', TOO_MUCH)}"
        f'<text x="{at + width:.1f}" y="{y + 52}" font-size="13" fill="{GREY}" text-anchor="end">{text}</text>'
    )


def _label(x: Decimal, y: int, text: str, colour: str) -> str:
    """In the middle of a part of a bar."""
    return f'<text x="{x:.1f}" y="{y + 22}" font-size="13" fill="{colour}" text-anchor="middle">{text}</text>'


def _text(y: int, text: str, size: int, colour: str, weight: str) -> str:
    return f'<text x="{LEFT}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{text}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the picture of the README.")
    parser.add_argument("--check", action="store_true", help="exit 1 if the picture is not what would be drawn")
    wanted = picture(json.loads(NUMBERS.read_text(encoding="utf-8")))
    if not parser.parse_args().check:
        PICTURE.write_text(wanted, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == wanted:
        return 0
    print("docs/assets/incident.svg is not what the numbers say; run: python scripts/draw_incident.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
