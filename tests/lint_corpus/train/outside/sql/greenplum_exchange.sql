DROP TABLE IF EXISTS stg.sales_exchange;
CREATE TABLE stg.sales_exchange (LIKE dwh.sales);
INSERT INTO stg.sales_exchange SELECT * FROM ext.sales WHERE sale_month = '2024-05';
ALTER TABLE dwh.sales EXCHANGE PARTITION FOR ('2024-05-01') WITH TABLE stg.sales_exchange;
