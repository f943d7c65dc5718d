"""Make the shop's data: the same values on every machine, on every run.

    python generate.py --days 10 --orders-per-day 1000
    python generate.py --days 1 --orders-per-day 5000000 --only orders      (for the bench)

No value comes from chance or from the clock: each is a hash of the keys it belongs to. A day has the same orders
whichever days are made with it, and a smaller day is the beginning of a larger one. Writing a day again replaces it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import local_spark

HERE = Path(__file__).resolve().parent
EPOCH = date(1970, 1, 1)
NEW_YEAR = date(2026, 1, 1)
FIRST_DAY = date(2026, 6, 1)

# Repeated names are weights: four of ten customers live in the US.
REGIONS = ("us", "us", "us", "us", "eu", "eu", "eu", "uk", "jp", "br")
CURRENCIES = {"us": "USD", "eu": "EUR", "uk": "GBP", "jp": "JPY", "br": "BRL"}
PER_DOLLAR = {"us": "1.0000", "eu": "0.9200", "uk": "0.7900", "jp": "149.2000", "br": "5.4000"}
CATEGORIES = ("coffee", "tea", "bread", "books", "toys", "garden")
EVENT_KINDS = ("view", "view", "view", "view", "search", "add_to_cart", "add_to_cart", "checkout")
MOVEMENT_KINDS = ("delivery", "delivery", "delivery", "return", "breakage")

MOST_PER_DAY = 10_000_000
"""Ids are day * MOST_PER_DAY + n: they stay the same however many orders a day is given."""
LINES = 3


@dataclass(frozen=True)
class Size:
    days: int
    orders_per_day: int
    first: date = FIRST_DAY
    customers: int = 1000
    products: int = 200
    broken_region: str | None = None
    """Its orders have no `amount_usd`, as on the day the currency service was down."""

    @property
    def end(self) -> date:
        return self.first + timedelta(days=self.days)


@dataclass(frozen=True)
class Table:
    """`by` is the DATE column the table is partitioned by; None for a table without days."""

    make: Callable[[SparkSession, Size], DataFrame]
    by: str | None = None


def orders(spark: SparkSession, size: Size) -> DataFrame:
    numbered = _numbered(spark, size, size.orders_per_day)
    order = F.col("id")
    customer = 1 + _pick(size.customers, "customer of", order)
    ordered = F.col("day") * 86_400 + _pick(86_400, "second of", order)
    dollars = sum((_line_cents(size, order, n) for n in range(1, LINES + 1)), F.lit(0))
    amount_usd = _money(dollars)
    region = F.col("region")
    made = numbered.select("id", "day", customer.alias("customer_id"), amount_usd.alias("exact"), ordered.alias("at"))
    made = made.withColumn("region", _region_of(F.col("customer_id")))
    return made.select(
        order.alias("order_id"),
        F.timestamp_seconds("at").alias("ordered_at"),
        F.timestamp_seconds(F.col("at") + _pick(7_200, "update of", order)).alias("updated_at"),
        "customer_id",
        "region",
        _looked_up(region, CURRENCIES).alias("currency"),
        F.round(F.col("exact") * _looked_up(region, PER_DOLLAR).cast("decimal(9,4)"), 2)
        .cast("decimal(12,2)")
        .alias("amount"),
        _unless_broken(F.col("exact"), region, size).alias("amount_usd"),
        _day_as_date().alias("order_date"),
    )


def order_lines(spark: SparkSession, size: Size) -> DataFrame:
    """The sum of an order's lines is its `amount_usd`, to the cent."""
    order = F.col("id")
    lines = F.array(*[_line(size, order, n) for n in range(1, LINES + 1)])
    exploded = _numbered(spark, size, size.orders_per_day).select("id", "day", F.explode(lines).alias("line"))
    return exploded.where(F.col("line.line_no") <= _line_count(order)).select(
        order.alias("order_id"),
        "line.line_no",
        "line.product_id",
        "line.quantity",
        _money(F.col("line.unit_cents")).alias("unit_price_usd"),
        _money(F.col("line.unit_cents") * F.col("line.quantity")).alias("amount_usd"),
        _day_as_date().alias("order_date"),
    )


def customers(spark: SparkSession, size: Size) -> DataFrame:
    customer = F.col("id") + 1
    return spark.range(size.customers).select(
        customer.alias("customer_id"),
        F.format_string("Customer %06d", customer).alias("name"),
        F.format_string("customer-%06d@example.com", customer).alias("email"),
        _region_of(customer).alias("region"),
        F.date_add(F.lit(date(2024, 1, 1)), _pick(700, "signed up", customer).cast("int")).alias("signed_up_on"),
    )


def products(spark: SparkSession, size: Size) -> DataFrame:
    product = F.col("id") + 1
    return spark.range(size.products).select(
        product.alias("product_id"),
        F.format_string("SKU-%05d", product).alias("sku"),
        _one_of(CATEGORIES, "category of", product).alias("category"),
        _money(_price_cents(product)).alias("price_usd"),
        F.timestamp_seconds(F.lit((NEW_YEAR - EPOCH).days * 86_400)).alias("updated_at"),
    )


def product_changes(spark: SparkSession, size: Size) -> DataFrame:
    """The catalogue's change feed: about one product in twenty a day, now and then one of them twice."""
    change = F.col("id")
    product = 1 + _pick(size.products, "changed", change)
    cents = _price_cents(product) + _pick(500, "new price", change)
    return _numbered(spark, size, max(2, size.products // 20)).select(
        product.alias("product_id"),
        F.format_string("SKU-%05d", product).alias("sku"),
        _one_of(CATEGORIES, "category of", product).alias("category"),
        _money(cents).alias("price_usd"),
        F.timestamp_seconds(F.col("day") * 86_400 + _pick(86_400, "changed at", change)).alias("updated_at"),
        _day_as_date().alias("change_date"),
    )


def events(spark: SparkSession, size: Size) -> DataFrame:
    """Three a day for each order, as trackers deliver them: one in 50 comes the next morning, and one in 200 comes
    twice, on the same day or on the next. A day of this table is a day of deliveries."""
    event = F.col("id")
    late = _pick(50, "late", event) == 0
    again = _pick(200, "sent twice", event) == 0
    first = F.struct(F.lit(1).alias("number"), late.cast("int").alias("days"))
    second = F.struct(F.lit(2).alias("number"), (late | (_pick(2, "sent again", event) == 0)).cast("int").alias("days"))
    happened = F.col("day") * 86_400 + _pick(86_340, "event second", event)
    # What happened the day before may be delivered on the first day. Three times as many as orders, so the room for
    # ids is three times as large too.
    before = replace(size, days=size.days + 1, first=size.first - timedelta(days=1))
    numbered = _numbered(spark, before, 3 * size.orders_per_day, room=3 * MOST_PER_DAY)
    sent = numbered.withColumn("sent", F.explode(F.when(again, F.array(first, second)).otherwise(F.array(first))))
    delay = F.col("sent.number") * (1 + _pick(30, "delay", event))
    next_morning = (F.col("day") + 1) * 86_400 + 21_600
    delivered = F.when(F.col("sent.days") == 0, happened).otherwise(next_morning) + delay
    delivered_on = F.date_add(F.lit(EPOCH), (F.col("day") + F.col("sent.days")).cast("int"))
    return sent.where((delivered_on >= F.lit(size.first)) & (delivered_on < F.lit(size.end))).select(
        F.format_string("e%d", event).alias("event_id"),
        F.timestamp_seconds(happened).alias("event_at"),
        F.timestamp_seconds(delivered).alias("delivered_at"),
        (1 + _pick(size.customers, "event customer", event)).alias("customer_id"),
        _one_of(EVENT_KINDS, "event kind", event).alias("kind"),
        (1 + _pick(size.products, "event product", event)).alias("product_id"),
        _day_as_date().alias("event_date"),
        delivered_on.alias("delivered_on"),
    )


def stock(spark: SparkSession, size: Size) -> DataFrame:
    """What every warehouse counted on New Year's Day: one row per product and region."""
    regions = F.array(*[F.lit(region) for region in CURRENCIES])
    product = F.col("id") + 1
    return (
        spark.range(size.products)
        .select(
            product.alias("product_id"),
            F.explode(regions).alias("warehouse"),
        )
        .select(
            "product_id",
            "warehouse",
            (500 + _pick(500, "opening stock", F.col("product_id"), F.col("warehouse"))).cast("int").alias("quantity"),
            F.lit(NEW_YEAR).alias("counted_on"),
        )
    )


def stock_movements(spark: SparkSession, size: Size) -> DataFrame:
    """What came in, came back and broke: one for every ten orders. Sales are in the order lines."""
    movement = F.col("id")
    kind = _one_of(MOVEMENT_KINDS, "movement kind", movement)
    amount = 1 + _pick(20, "moved", movement)
    return _numbered(spark, size, max(1, size.orders_per_day // 10)).select(
        F.format_string("D%d", F.expr("id div 4")).alias("document"),
        (1 + F.col("id") % 4).cast("int").alias("line_no"),
        (1 + _pick(size.products, "moved product", movement)).alias("product_id"),
        _one_of(tuple(CURRENCIES), "warehouse", movement).alias("warehouse"),
        kind.alias("kind"),
        F.when(kind == "breakage", -amount).otherwise(amount).cast("int").alias("quantity"),
        _day_as_date().alias("movement_date"),
    )


TABLES = {
    "orders": Table(orders, by="order_date"),
    "order_lines": Table(order_lines, by="order_date"),
    "customers": Table(customers),
    "products": Table(products),
    "product_changes": Table(product_changes, by="change_date"),
    "events": Table(events, by="delivered_on"),
    "stock": Table(stock),
    "stock_movements": Table(stock_movements, by="movement_date"),
}


def write(spark: SparkSession, warehouse: Path, size: Size, only: Sequence[str] = tuple(TABLES)) -> dict[str, Path]:
    """Write the tables as `shop.<name>`, the folder `shop/<name>` of the warehouse. A second call replaces its days
    with the same rows and touches no other day."""
    places = {name: warehouse / "shop" / name for name in only}
    for name, place in places.items():
        table = TABLES[name]
        writer = table.make(spark, size).write.format("delta").mode("overwrite")
        if table.by is not None:
            days = f"{table.by} >= '{size.first}' AND {table.by} < '{size.end}'"
            writer = writer.partitionBy(table.by).option("replaceWhere", days)
        writer.save(str(place))
    return places


def _numbered(spark: SparkSession, size: Size, per_day: int, room: int = MOST_PER_DAY) -> DataFrame:
    """`per_day` rows for each day, with `day` (since 1970) and an `id` that never changes."""
    first = (size.first - EPOCH).days
    row = F.col("id")
    day = (F.lit(first) + F.expr(f"id div {per_day}")).alias("day")
    return (
        spark.range(size.days * per_day)
        .select(day, row.alias("row"))
        .select((F.col("day") * room + F.col("row") % per_day).alias("id"), "day")
    )


def _line(size: Size, order: Column, number: int) -> Column:
    product = _line_product(size, order, number)
    return F.struct(
        F.lit(number).alias("line_no"),
        product.alias("product_id"),
        _line_quantity(order, number).cast("int").alias("quantity"),
        _price_cents(product).alias("unit_cents"),
    )


def _line_cents(size: Size, order: Column, number: int) -> Column:
    cents = _price_cents(_line_product(size, order, number)) * _line_quantity(order, number)
    return F.when(F.lit(number) <= _line_count(order), cents).otherwise(F.lit(0))


def _line_count(order: Column) -> Column:
    return 1 + _pick(LINES, "lines of", order)


def _line_product(size: Size, order: Column, number: int) -> Column:
    return 1 + _pick(size.products, "product of", order, F.lit(number))


def _line_quantity(order: Column, number: int) -> Column:
    return 1 + _pick(3, "quantity of", order, F.lit(number))


def _price_cents(product: Column) -> Column:
    return 299 + _pick(19_700, "price of", product)


def _region_of(customer: Column) -> Column:
    return _one_of(REGIONS, "region of", customer)


def _unless_broken(amount: Column, region: Column, size: Size) -> Column:
    if size.broken_region is None:
        return amount
    return F.when(region != size.broken_region, amount)


def _pick(count: int, salt: str, *keys: Column) -> Column:
    """A number in [0, count) that depends on the keys alone; the salt keeps the columns apart."""
    return F.pmod(F.xxhash64(F.lit(salt), *keys), F.lit(count))


def _one_of(values: Sequence[str], salt: str, key: Column) -> Column:
    return F.element_at(F.array(*[F.lit(value) for value in values]), (1 + _pick(len(values), salt, key)).cast("int"))


def _looked_up(key: Column, values: dict[str, str]) -> Column:
    return F.element_at(F.create_map(*[F.lit(part) for pair in values.items() for part in pair]), key)


def _money(cents: Column) -> Column:
    return (cents.cast("decimal(12,0)") * F.lit(Decimal("0.01"))).cast("decimal(12,2)")


def _day_as_date() -> Column:
    return F.date_add(F.lit(EPOCH), F.col("day").cast("int"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the worldshop's data, the same on every machine.")
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--orders-per-day", type=int, default=1000)
    parser.add_argument("--first", type=date.fromisoformat, default=FIRST_DAY, help="the first day (2026-06-01)")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), help="not all tables")
    parser.add_argument("--broken-region", choices=CURRENCIES, help="this region's orders get no amount_usd")
    parser.add_argument("--warehouse", type=Path, default=HERE / "warehouse")
    asked = parser.parse_args()
    if asked.days < 1 or not 1 <= asked.orders_per_day <= MOST_PER_DAY:
        parser.error(f"--days is at least 1, --orders-per-day 1 to {MOST_PER_DAY}")
    return asked


def main() -> None:
    asked = _arguments()
    size = Size(asked.days, asked.orders_per_day, asked.first, broken_region=asked.broken_region)
    spark = local_spark.start(asked.warehouse, short_jobs=size.days * size.orders_per_day < 1_000_000)
    for name, place in write(spark, asked.warehouse, size, asked.only).items():
        rows = spark.read.format("delta").load(str(place)).count()
        print(f"shop.{name:<18}{rows:>12,} rows")
    print(f"in {asked.warehouse}, {size.first} to {size.end - timedelta(days=1)}")


if __name__ == "__main__":
    main()
