DROP TABLE IF EXISTS ref.currency;
CREATE TABLE ref.currency (
    code CHAR(3) PRIMARY KEY,
    name TEXT NOT NULL
);
INSERT INTO ref.currency (code, name) VALUES ('EUR', 'Euro'), ('USD', 'US dollar'), ('CHF', 'Swiss franc');

CREATE OR REPLACE TABLE ref.region (id INT, name STRING);
INSERT INTO ref.region VALUES (1, 'EMEA');
INSERT INTO ref.region VALUES (2, 'APAC');

INSERT INTO ref.unit (code)
SELECT 'kg' WHERE NOT EXISTS (SELECT 1 FROM ref.unit WHERE code = 'kg');
