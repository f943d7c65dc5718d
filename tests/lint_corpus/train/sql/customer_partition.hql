set hive.exec.compress.output=true;
set hive.exec.dynamic.partition.mode=nonstrict;

INSERT OVERWRITE TABLE dw.customer_daily PARTITION (dt)
SELECT customer_id,
       SUM(amount)  AS amount,
       COUNT(1)     AS orders,
       dt
FROM dw.orders
WHERE dt = '${hiveconf:run_date}'
GROUP BY customer_id, dt;
