-- Runs on the 1st, Oracle
DECLARE
  v_month DATE := TRUNC(SYSDATE, 'MM') - 1;
BEGIN
  FOR r IN (SELECT customer_id, SUM(amount) AS amount FROM orders WHERE TRUNC(order_date, 'MM') = v_month GROUP BY customer_id) LOOP
    UPDATE loyalty SET points = points + FLOOR(r.amount / 10) WHERE customer_id = r.customer_id;
  END LOOP;
  COMMIT;
END;
/
