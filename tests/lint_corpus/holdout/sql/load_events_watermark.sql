-- step 1: move what is new
insert into dw.events (event_id, user_id, kind, created_at)
select event_id, user_id, kind, created_at
from src.events
where created_at > (select coalesce(max(created_at), '1970-01-01') from dw.events);

-- step 2: remember
update etl.watermark set high_mark = now() where name = 'events';

-- step 3: counters for the dashboard
update dw.user_totals t
set events = t.events + d.n
from (select user_id, count(*) as n from dw.events where created_at >= current_date group by user_id) d
where t.user_id = d.user_id;
