-- BigQuery scheduled query
INSERT INTO `p.mart.inventory_snapshot`
SELECT CURRENT_DATE() AS snapshot_date, sku, warehouse, quantity
FROM `p.core.inventory`;
