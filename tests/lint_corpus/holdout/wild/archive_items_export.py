# Databricks notebook source
dbutils.widgets.removeAll()
dbutils.widgets.text("deltaPath", "")
dbutils.widgets.text("archivePath", "")
deltaPath = dbutils.widgets.get("deltaPath")
archivePath = dbutils.widgets.get("archivePath")

# COMMAND ----------

from delta.tables import *
from pyspark.sql.functions import *
import datetime
Date = str(datetime.date.today())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Archive closed items

# COMMAND ----------

def archive(path, archive_path):
  df = spark.read.format('delta').load(path)
  old = df.filter((col("STATUS") == 'C') & (datediff(current_date(), col('UPDATED')) >= 30))
  if old.count() > 0:
    old.write.mode('Append').format('parquet').save(archive_path + "/" + Date + "/items")
    DeltaTable.forPath(spark, path).delete((col("STATUS") == 'C') & (datediff(current_date(), col('UPDATED')) >= 30))
  else:
    print("nothing to archive")

archive(deltaPath, archivePath)
