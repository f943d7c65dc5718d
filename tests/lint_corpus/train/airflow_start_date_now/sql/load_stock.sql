-- called by the stock_levels DAG
insert into stock_levels (day, sku, qty)
select date '{{ params.day }}', sku, sum(qty)
from movements
where moved_on <= date '{{ params.day }}'
group by sku;
