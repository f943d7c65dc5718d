"""Small tasks, each broken in one known way, and its sound twin."""

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as sf

from twice import Daily, read, replace, surrogate_key, task

DAILY = Daily("day", start="2026-01-01")
EVENTS = {"events": read("shop.events", by="day")}


@task("out.clock_in_data", scope=DAILY, inputs=EVENTS, write=replace())
def clock_in_data(events: Any) -> Any:
    return events.select("id", "day", sf.current_timestamp().alias("loaded_at"))


@task("out.clock_in_data_sound", scope=DAILY, inputs=EVENTS, write=replace())
def clock_in_data_sound(events: Any) -> Any:
    return events.select("id", "day", sf.col("day").cast("timestamp").alias("loaded_at"))


@task("out.clock_in_scope", scope=DAILY, inputs=EVENTS, write=replace())
def clock_in_scope(events: Any) -> Any:
    return events.where(sf.col("arrives") < sf.current_timestamp()).select("id", "day")


@task("out.clock_in_scope_sound", scope=DAILY, inputs=EVENTS, write=replace())
def clock_in_scope_sound(events: Any) -> Any:
    return events.where("day >= DATE'2026-06-09' AND day < DATE'2026-06-10'").select("id", "day")


@task("out.uuid_key", scope=DAILY, inputs=EVENTS, write=replace())
def uuid_key(events: Any) -> Any:
    return events.select("id", "day", sf.expr("uuid()").alias("key"))


@task("out.uuid_key_sound", scope=DAILY, inputs=EVENTS, write=replace())
def uuid_key_sound(events: Any) -> Any:
    return events.select("id", "day", surrogate_key("id", "day").alias("key"))


@task("out.monotonic_id", scope=DAILY, inputs=EVENTS, write=replace())
def monotonic_id(events: Any) -> Any:
    return events.select("id", "day", sf.monotonically_increasing_id().alias("key"))


@task("out.monotonic_id_sound", scope=DAILY, inputs=EVENTS, write=replace())
def monotonic_id_sound(events: Any) -> Any:
    return events.select("id", "day", sf.row_number().over(Window.partitionBy("day").orderBy("id")).alias("key"))


@task("out.arbitrary_survivor", scope=DAILY, inputs=EVENTS, write=replace())
def arbitrary_survivor(events: Any) -> Any:
    return events.select("day", "customer", "tag", "id").dropDuplicates(["day", "customer"])


@task("out.arbitrary_survivor_sound", scope=DAILY, inputs=EVENTS, write=replace())
def arbitrary_survivor_sound(events: Any) -> Any:
    newest = sf.row_number().over(Window.partitionBy("day", "customer").orderBy(sf.desc("id")))
    return events.select("day", "customer", "tag", "id", newest.alias("place")).where("place = 1").drop("place")


@task("out.ties", scope=DAILY, inputs=EVENTS, write=replace())
def ties(events: Any) -> Any:
    return events.select(
        "id", "day", sf.row_number().over(Window.partitionBy("day").orderBy("customer")).alias("place")
    )


@task("out.ties_sound", scope=DAILY, inputs=EVENTS, write=replace())
def ties_sound(events: Any) -> Any:
    order = Window.partitionBy("day").orderBy("customer", "id")
    return events.select("id", "day", sf.row_number().over(order).alias("place"))


@task("out.list_order", scope=DAILY, inputs=EVENTS, write=replace())
def list_order(events: Any) -> Any:
    return events.groupBy("day", "customer").agg(sf.collect_list("tag").alias("tags"))


@task("out.list_order_sound", scope=DAILY, inputs=EVENTS, write=replace())
def list_order_sound(events: Any) -> Any:
    return events.groupBy("day", "customer").agg(sf.sort_array(sf.collect_list("tag")).alias("tags"))


@task("out.sum_of_doubles", scope=DAILY, inputs=EVENTS, write=replace())
def sum_of_doubles(events: Any) -> Any:
    return events.groupBy("day", "customer").agg(sf.sum("amount").alias("revenue"))


@task("out.sum_of_doubles_sound", scope=DAILY, inputs=EVENTS, write=replace())
def sum_of_doubles_sound(events: Any) -> Any:
    return events.groupBy("day", "customer").agg(sf.sum(sf.col("amount").cast("decimal(18,6)")).alias("revenue"))
