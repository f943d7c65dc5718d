set hive.execution.engine=tez;
set hive.exec.dynamic.partition.mode=nonstrict;

with hits as (
  select cookie, url, ts,
         case when ts - lag(ts) over (partition by cookie order by ts) > 1800 then 1 else 0 end as new_session,
         dt
  from raw.hits where dt = '${hiveconf:dt}'
)
insert overwrite table core.sessions partition (dt)
select cookie, concat(cookie, '-', cast(sum(new_session) over (partition by cookie order by ts) as string)) as session_id, url, ts, dt
from hits;

insert into table core.session_counts
select '${hiveconf:dt}', count(distinct session_id), from_unixtime(unix_timestamp())
from core.sessions where dt = '${hiveconf:dt}';
