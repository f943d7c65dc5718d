"""What docs/change-a-schema.md and docs/adopt.md show is done here, command by command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.acceptance.conftest import Shop

PAGES = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def steps(page: str) -> Iterator[tuple[str, str, str]]:
    """A pipeline's text, or a command with what it prints."""
    for kind, text in BLOCK.findall((PAGES / page).read_text()):
        if kind == "python":
            yield kind, text, ""
            continue
        for command in text.split("$ ")[1:]:
            line, _, printed = command.partition("\n")
            yield kind, line.removeprefix("twice "), printed.strip()


def follow(shop: Shop, page: str) -> None:
    for kind, text, printed in steps(page):
        if kind == "python":
            shop.write("pipelines/revenue.py", text)
            continue
        answer = shop.call(*text.split())
        found = f"{answer.out}{answer.err}".replace(f" {shop.named}", "")
        for line in printed.splitlines():
            assert line in found, f"{text}\n{found}"
        # A page shows that a command is refused; what is not shown went well.
        assert (answer.code != 0) is ("error[" in printed), f"{text}: exit {answer.code}\n{found}"


def test_the_page_about_changing_a_schema_is_true(stocked: Shop, spark: Any) -> None:
    follow(stocked, "change-a-schema.md")
    found = spark.read.format("delta").load(str(stocked.warehouse / "shop/revenue_daily"))
    assert sorted(tuple(map(str, row)) for row in found.collect()) == [
        ("2026-06-09", "EU", "12.5"),
        ("2026-06-09", "US", "1.0"),
        ("2026-06-10", "EU", "7.0"),
    ]
    assert [str(place.name) for place in (stocked.warehouse / "shop").iterdir() if "__rebuild" in place.name] == []
    nothing = stocked.call("rebuild", "revenue_daily", "--abandon")
    assert nothing.out == "revenue_daily: no copy is being built\n"
    refused = stocked.call("rebuild", "revenue_daily")
    assert (refused.code, "a table is not rebuilt without a person's confirmation" in refused.err) == (2, True)


def test_the_page_about_adopting_a_table_is_true(stocked: Shop, spark: Any) -> None:
    rows = [("2026-06-09", "EU", "99.00"), ("2026-06-10", "EU", "98.00")]
    frame = spark.createDataFrame(rows, "order_date STRING, region STRING, revenue STRING")
    place = str(stocked.warehouse / "shop/revenue_daily")
    typed = frame.selectExpr("CAST(order_date AS DATE)", "region", "CAST(revenue AS DECIMAL(22,2)) AS revenue")
    typed.coalesce(1).write.format("delta").save(place)
    follow(stocked, "adopt.md")
    found = spark.read.format("delta").load(place)
    assert sorted(tuple(map(str, row)) for row in found.collect()) == rows
    assert stocked.call("restate", "revenue_daily", "--date", "2026-06-09").code == 0
    again = spark.read.format("delta").load(place).where("order_date = '2026-06-09'")
    assert sorted(tuple(map(str, row)) for row in again.collect()) == [
        ("2026-06-09", "EU", "12.50"),
        ("2026-06-09", "US", "1.00"),
    ]
    wrong = stocked.call("adopt", "shop.other", "--task", "revenue_daily", "--yes")
    assert (wrong.code, "revenue_daily writes shop.revenue_daily, not shop.other" in wrong.err) == (2, True)
