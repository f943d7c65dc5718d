{{ config(materialized='table') }}

select
    customer_id,
    min(created_at) as first_seen,
    max(updated_at) as last_seen,
    count(*) as versions,
    current_timestamp as refreshed_at
from {{ ref('stg_customers') }}
group by customer_id
