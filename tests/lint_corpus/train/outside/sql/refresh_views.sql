REFRESH MATERIALIZED VIEW CONCURRENTLY mart.sales_by_region;
ANALYZE mart.sales_by_region;
CREATE OR REPLACE VIEW mart.recent AS SELECT * FROM mart.sales WHERE day > current_date - 30;
GRANT SELECT ON mart.recent TO reporting;
