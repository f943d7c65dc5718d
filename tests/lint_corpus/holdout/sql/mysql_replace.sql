-- country_stats.sql (MySQL 8)
CREATE TEMPORARY TABLE tmp_stats AS
SELECT country, COUNT(*) AS users FROM users WHERE signup_date <= @day GROUP BY country;

REPLACE INTO country_stats (day, country, users)
SELECT @day, country, users FROM tmp_stats;

INSERT INTO country_names (code, name)
SELECT DISTINCT country, country FROM tmp_stats
ON DUPLICATE KEY UPDATE name = VALUES(name);

DROP TEMPORARY TABLE tmp_stats;
