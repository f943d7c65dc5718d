# Databricks notebook source
# MAGIC %md
# MAGIC # Bronze: tickets
# MAGIC Loads the drop folder.

# COMMAND ----------

# MAGIC %run ./includes/setup

# COMMAND ----------

dbutils.widgets.text("source", "/mnt/drop/tickets")
source = dbutils.widgets.get("source")

# COMMAND ----------

from pyspark.sql.functions import current_timestamp, input_file_name, lit

df = (
    spark.read.option("header", "true").csv(source)
    .withColumn("ingest_ts", current_timestamp())
    .withColumn("file", input_file_name())
)
df.write.format("delta").mode("append").saveAsTable("bronze.tickets")

# COMMAND ----------

# MAGIC %sql
# MAGIC INSERT INTO silver.tickets
# MAGIC SELECT ticket_id, subject, opened_at FROM bronze.tickets
# MAGIC WHERE to_date(ingest_ts) = current_date()

# COMMAND ----------

dbutils.notebook.exit("ok")
