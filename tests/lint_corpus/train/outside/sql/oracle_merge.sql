MERGE INTO dim_store d
USING (
  SELECT store_id, MAX(name) AS name, MAX(city) AS city
  FROM stg_store
  GROUP BY store_id
) s
ON (d.store_id = s.store_id)
WHEN MATCHED THEN UPDATE SET d.name = s.name, d.city = s.city
WHEN NOT MATCHED THEN INSERT (store_id, name, city) VALUES (s.store_id, s.name, s.city);

COMMIT;
