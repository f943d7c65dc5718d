USE WAREHOUSE etl_wh;
INSERT OVERWRITE INTO mart.stores
SELECT id, name FROM raw.stores;

CREATE OR REPLACE TRANSIENT TABLE mart.tmp_visits AS
SELECT * FROM raw.visits WHERE day = $day;

-- reading the stream in a DML statement moves its offset in the same transaction
INSERT INTO mart.orders_history
SELECT order_id, status, changed_at FROM raw.orders_stream WHERE METADATA$ACTION = 'INSERT';
