-- Databricks notebook source
-- MAGIC %md
-- MAGIC ## Silver: machines

-- COMMAND ----------

CREATE TABLE IF NOT EXISTS silver.machines (machine_id STRING, state STRING, changed_at TIMESTAMP) USING DELTA;

-- COMMAND ----------

MERGE INTO silver.machines t
USING bronze.machine_states s
ON t.machine_id = s.machine_id
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *;

-- COMMAND ----------

-- MAGIC %python
-- MAGIC counts = spark.table("silver.machines").groupBy("state").count()
-- MAGIC counts.write.mode("append").saveAsTable("gold.machine_counts")

-- COMMAND ----------

SELECT state, count(*) FROM silver.machines GROUP BY state
