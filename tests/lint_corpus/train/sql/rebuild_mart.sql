-- full refresh by table swap (PostgreSQL)
BEGIN;
DROP TABLE IF EXISTS mart.product_new;
CREATE TABLE mart.product_new (LIKE mart.product INCLUDING ALL);

INSERT INTO mart.product_new (sku, title, price)
SELECT p.sku, p.title, r.price
FROM core.product p
JOIN LATERAL (
    SELECT price FROM core.price r WHERE r.sku = p.sku ORDER BY r.valid_from DESC, r.price_id DESC LIMIT 1
) r ON true;

ALTER TABLE mart.product RENAME TO product_old;
ALTER TABLE mart.product_new RENAME TO product;
DROP TABLE mart.product_old;
COMMIT;
