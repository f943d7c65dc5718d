MERGE INTO silver.events AS t
USING (
  SELECT event_id, ANY_VALUE(payload) AS payload, MAX(event_ts) AS event_ts
  FROM bronze.events
  WHERE event_date = DATE '{{ ds }}'
  GROUP BY event_id
) AS s
ON t.event_id = s.event_id
WHEN NOT MATCHED THEN INSERT (event_id, payload, event_ts) VALUES (s.event_id, s.payload, s.event_ts);
