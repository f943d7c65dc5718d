/* nightly, from cron */
INSERT INTO sales_daily (day, store_id, units, revenue)
SELECT s.sold_at::date, s.store_id, SUM(s.units), SUM(s.revenue)
FROM sales s
WHERE s.sold_at >= CURRENT_DATE - INTERVAL '1 day'
  AND s.sold_at < CURRENT_DATE
GROUP BY 1, 2;

INSERT INTO best_sellers (store_id, sku)
SELECT store_id, sku
FROM sales_ranked
WHERE day = (SELECT MAX(day) FROM sales_ranked)
LIMIT 100;
