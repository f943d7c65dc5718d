from google.cloud import bigquery

MERGE = """
MERGE `{project}.mart.readings_daily` t
USING (
  SELECT device_id, DATE(ts) AS day, AVG(value) AS avg_value
  FROM `{project}.raw.readings`
  WHERE DATE(ts) = @day
  GROUP BY device_id, day
) s
ON t.device_id = s.device_id AND t.day = s.day
WHEN MATCHED THEN UPDATE SET avg_value = s.avg_value
WHEN NOT MATCHED THEN INSERT (device_id, day, avg_value) VALUES (s.device_id, s.day, s.avg_value)
"""


def run(project: str, day: str) -> None:
    client = bigquery.Client(project=project)
    config = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter("day", "DATE", day)])
    client.query(MERGE.format(project=project), job_config=config).result()
