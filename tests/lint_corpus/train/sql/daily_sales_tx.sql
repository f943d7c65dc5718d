-- :day is bound by the runner
BEGIN;

DELETE FROM sales_daily WHERE day = :day;

INSERT INTO sales_daily (day, store_id, units, revenue, etl_loaded_at)
SELECT s.sold_on, s.store_id, SUM(s.units), SUM(s.revenue), CURRENT_TIMESTAMP
FROM sales s
WHERE s.sold_on = :day
GROUP BY s.sold_on, s.store_id;

COMMIT;
