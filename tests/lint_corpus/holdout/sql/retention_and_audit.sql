-- housekeeping, runs hourly

DELETE FROM audit.request_log WHERE requested_at < now() - interval '90 days';

DELETE FROM app.sessions WHERE expires_at < CURRENT_TIMESTAMP;

INSERT INTO mart.store_status (store_id, status, refreshed_at)
SELECT store_id, max(status), now()
FROM core.store_events
GROUP BY store_id
ON CONFLICT (store_id) DO UPDATE SET status = EXCLUDED.status, refreshed_at = EXCLUDED.refreshed_at;

SELECT count(*) AS stale FROM mart.store_status WHERE refreshed_at < now() - interval '2 hours';
