{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key=['day', 'store_id']) }}
select day, store_id, sum(amount) as amount
from {{ ref('sales') }}
{% if is_incremental() %}
where day >= '{{ var("start_day") }}'
{% endif %}
group by 1, 2
