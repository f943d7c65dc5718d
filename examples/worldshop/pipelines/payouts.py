"""What is paid out to each region's partner for a day: once, however often the job is run or killed.

The payment itself is an effect: it goes out when the day is published and audited, with a key that is the same in
every try. The bank's side acts once per key. Start one to look at: python receiver.py, then
TWICE_EFFECTS_SEND=true twice effects send.
"""

from pyspark.sql import functions as F
from twice import Daily, PublishedSlice, audit, read, replace, slack, task, webhook


def instructions(result: PublishedSlice):
    """Made once from the committed rows; every try sends these very bytes."""
    payouts = [{"partner": row["region"], "amount": row["amount"]} for row in result.sample]
    return {"day": result.slice, "generation": result.generation, "payouts": payouts}


@task(
    "shop.payouts_daily",
    scope=Daily("order_date", start="2026-01-01"),
    inputs={"revenue": read("shop.revenue_daily", by="order_date")},
    write=replace(),
    audits=[audit.unique("order_date", "region"), audit.between("amount", 0, 10_000_000), audit.rows(at_most=100)],
    effects=[
        webhook("http://127.0.0.1:8799/payouts", body=instructions, sample=100, idempotency_key=True, name="pay"),
        slack("#finance", text=lambda result: f"Payouts of {result.slice} are ordered: {result.rows} partners."),
    ],
)
def payouts_daily(revenue):
    share = F.lit("0.20").cast("decimal(3,2)")
    return revenue.select("order_date", "region", (F.col("revenue") * share).cast("decimal(14,2)").alias("amount"))
