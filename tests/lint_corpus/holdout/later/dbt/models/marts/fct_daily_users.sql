{{ config(materialized='incremental') }}
select
    date_trunc('day', seen_at) as day,
    count(distinct user_id) as users,
    {{ dbt_utils.generate_surrogate_key(['day']) }} as sk
from {{ ref('stg_visits') }}
{% if is_incremental() %}
where seen_at > (select max(day) from {{ this }})
{% endif %}
group by 1
