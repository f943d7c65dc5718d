{{ config(partition_by={'field': 'session_date', 'data_type': 'date'}) }}

select
    session_id,
    user_id,
    min(event_at) as started_at,
    cast(min(event_at) as date) as session_date
from {{ ref('stg_events') }}
{% if is_incremental() %}
where event_date in ({{ var('partitions_to_replace') | join(', ') }})
{% endif %}
group by session_id, user_id
