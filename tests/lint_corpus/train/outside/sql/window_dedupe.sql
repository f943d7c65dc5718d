CREATE TABLE clean.users AS
SELECT * FROM (
    SELECT u.*, ROW_NUMBER() OVER (PARTITION BY email) AS rn
    FROM raw.users u
) t
WHERE rn = 1;

CREATE TABLE clean.top AS SELECT * FROM clean.users ORDER BY score DESC, id LIMIT 10;
