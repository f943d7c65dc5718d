create table export.customer_tags as
select customer_id,
       string_agg(tag, ',') as tags,
       array_agg(distinct country) as countries
from core.customer_tags
group by customer_id;

select distinct on (customer_id) customer_id, email
into export.customer_email
from core.emails;

insert into export.history (run_id, customers)
select gen_random_uuid(), count(*)
from export.customer_tags;
