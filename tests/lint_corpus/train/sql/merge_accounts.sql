-- Runs on SQL Server
MERGE dbo.account AS t
USING stg.account AS s
   ON t.account_no = s.account_no
WHEN MATCHED THEN
    UPDATE SET t.name = s.name, t.segment = s.segment, t.valid_from = GETDATE()
WHEN NOT MATCHED THEN
    INSERT (account_no, name, segment, valid_from) VALUES (s.account_no, s.name, s.segment, GETDATE());

WITH ranked AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY account_no ORDER BY (SELECT NULL)) AS rn FROM stg.address
)
INSERT INTO dbo.account_address (account_no, street, city)
SELECT account_no, street, city FROM ranked WHERE rn = 1;
