# Silver layer: devices
from pyspark.sql import SparkSession
from delta.tables import DeltaTable

spark = SparkSession.builder.appName("silver_devices").getOrCreate()

SILVER = "abfss://silver@lake.dfs.core.windows.net/devices"
bronze = spark.read.format("delta").load("abfss://bronze@lake.dfs.core.windows.net/devices")
updates = bronze.selectExpr("device_id", "model", "firmware", "event_time").dropDuplicates(["device_id"])

if DeltaTable.isDeltaTable(spark, SILVER):
    silver = DeltaTable.forPath(spark, SILVER)
    (
        silver.alias("old")
        .merge(updates.alias("new"), "old.device_id = new.device_id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
else:
    updates.write.format("delta").save(SILVER)

events = spark.read.format("delta").load("abfss://bronze@lake.dfs.core.windows.net/device_events")
state = DeltaTable.forPath(spark, "abfss://silver@lake.dfs.core.windows.net/device_state")
(
    state.alias("t")
    .merge(events.alias("e"), "t.device_id = e.device_id")
    .whenMatchedUpdate(set={"state": "e.state", "seen_at": "e.event_time"})
    .whenNotMatchedInsert(values={"device_id": "e.device_id", "state": "e.state", "seen_at": "e.event_time"})
    .execute()
)
