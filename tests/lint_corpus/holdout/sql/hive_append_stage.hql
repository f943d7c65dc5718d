USE stage;
ADD JAR hdfs:///lib/json-serde.jar;

CREATE EXTERNAL TABLE IF NOT EXISTS stage.web_log (ip STRING, ts STRING, url STRING)
PARTITIONED BY (dt STRING)
LOCATION '/data/stage/web_log';

LOAD DATA INPATH '/landing/web/${hiveconf:dt}' INTO TABLE stage.web_log PARTITION (dt='${hiveconf:dt}');

INSERT INTO TABLE core.web_hits PARTITION (dt='${hiveconf:dt}')
SELECT ip, url, count(1)
FROM stage.web_log
WHERE dt='${hiveconf:dt}'
GROUP BY ip, url;

INSERT OVERWRITE TABLE mart.url_totals
SELECT url, sum(hits) FROM core.web_hits GROUP BY url;
