SELECT customer_id, SUM(amount) AS amount
INTO #totals
FROM dbo.orders
WHERE order_date = @day
GROUP BY customer_id;

INSERT INTO #totals
SELECT customer_id, 0 FROM dbo.customers c
WHERE NOT EXISTS (SELECT 1 FROM dbo.orders o WHERE o.customer_id = c.customer_id);

BEGIN TRANSACTION;
DELETE FROM dbo.daily_totals WHERE day = @day;
INSERT INTO dbo.daily_totals (day, customer_id, amount)
SELECT @day, customer_id, amount FROM #totals;
COMMIT TRANSACTION;
