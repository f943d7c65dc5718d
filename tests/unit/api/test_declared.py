"""A declared task shows itself in a notebook, and no markup that its declaration holds."""

from __future__ import annotations

from typing import Any

from twice import Daily, Policy, Whole, audit, days, merge, read, replace, task


def test_a_notebook_shows_what_a_task_declares_and_leaves_out_what_it_does_not() -> None:
    @task(
        "shop.revenue_daily",
        scope=Daily("order_date", start="2026-01-01"),
        inputs={"orders": read("shop.orders", by="order_date", before=days(7))},
        write=replace(),
        audits=[audit.unique("order_date", "region"), audit.rows(at_least=1)],
        policy=Policy(evolve=True),
        formerly=["revenue"],
    )
    def revenue_daily(orders: Any) -> Any:
        return orders

    assert repr(revenue_daily) == "<DeclaredTask revenue_daily writes shop.revenue_daily>"
    shown = revenue_daily._repr_html_()
    assert "<p>revenue_daily writes shop.revenue_daily</p>" in shown
    rows = [row.replace('<td style="text-align:left">', "").split("</td>")[:2] for row in shown.split("<tr>")[2:]]
    assert rows == [
        ["scope", "Daily(order_date, start=2026-01-01)"],
        ["write", "replace()"],
        ["inputs", "orders: read(shop.orders, by=order_date, before=7 days)"],
        ["audits", "unique(order_date, region), rows(at_least=1)"],
        ["policy", "evolve=True"],
        ["formerly", "revenue"],
        ["file", "test_declared.py"],
    ]


def test_what_a_declaration_holds_is_text_and_no_markup() -> None:
    @task("shop.copy", scope=Whole(), write=merge("id"), audits=[audit.expression("x > 1", name="<script>")])
    def copy(run: Any) -> Any:
        return run

    assert "<script>" not in copy._repr_html_() and "&lt;script&gt;" in copy._repr_html_()
