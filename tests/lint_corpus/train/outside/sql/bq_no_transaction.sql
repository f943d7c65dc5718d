DELETE FROM `acme.mart.sessions` WHERE session_date = @run_date;
INSERT INTO `acme.mart.sessions` (session_date, user_id, hits)
SELECT session_date, user_id, COUNT(*) FROM `acme.raw.hits` WHERE session_date = @run_date GROUP BY 1, 2;
