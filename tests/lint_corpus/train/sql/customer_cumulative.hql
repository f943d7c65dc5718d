SET hive.exec.dynamic.partition=true;
SET hive.exec.dynamic.partition.mode=nonstrict;
SET mapred.job.queue.name=${queue};

-- everybody who ever bought something, carried forward from the day before
INSERT OVERWRITE TABLE dw.customer_cumulative PARTITION (dt = '${hivevar:dt}')
SELECT COALESCE(t.customer_id, y.customer_id),
       COALESCE(y.first_seen, '${hivevar:dt}'),
       COALESCE(y.total, 0) + COALESCE(t.amount, 0)
FROM (SELECT * FROM dw.customer_cumulative WHERE dt = date_sub('${hivevar:dt}', 1)) y
FULL OUTER JOIN (SELECT customer_id, SUM(amount) AS amount FROM dw.orders WHERE dt = '${hivevar:dt}' GROUP BY customer_id) t
ON t.customer_id = y.customer_id;

INSERT INTO TABLE dw.customer_flags
SELECT customer_id, 'vip', unix_timestamp() FROM dw.customer_cumulative
WHERE dt IN (SELECT MAX(dt) FROM dw.customer_cumulative) AND total > 10000;
