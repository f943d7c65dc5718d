DROP TABLE IF EXISTS bi.stg_videos;

CREATE TABLE bi.stg_videos AS
SELECT * FROM gold.videos WHERE 1 = 0;

INSERT INTO bi.stg_videos
SELECT * FROM gold.videos s
WHERE s.snapshot_at > (SELECT COALESCE(MAX(snapshot_at), TIMESTAMP '1970-01-01') FROM bi.videos);

MERGE INTO bi.videos t
USING (SELECT video_id, MAX(views) AS views, MAX(snapshot_at) AS snapshot_at FROM bi.stg_videos GROUP BY video_id) s
ON t.video_id = s.video_id
WHEN MATCHED THEN UPDATE SET views = s.views, snapshot_at = s.snapshot_at
WHEN NOT MATCHED THEN INSERT (video_id, views, snapshot_at) VALUES (s.video_id, s.views, s.snapshot_at);
