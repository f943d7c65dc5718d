# Databricks notebook source
# MAGIC %md Rebuild of the gold layer: every table is replaced as a whole.

# COMMAND ----------

# MAGIC %sql
# MAGIC CREATE OR REPLACE TABLE gold.revenue_by_region AS
# MAGIC SELECT region, year(order_date) AS year, sum(amount) AS revenue
# MAGIC FROM silver.orders
# MAGIC GROUP BY region, year(order_date)

# COMMAND ----------

top = spark.table("gold.revenue_by_region").orderBy("revenue", "region").limit(20)
display(top)

# COMMAND ----------

spark.table("silver.orders").groupBy("customer_id").count().write.mode("overwrite").saveAsTable("gold.orders_per_customer")

# COMMAND ----------

# MAGIC %sql
# MAGIC OPTIMIZE gold.orders_per_customer
