{{ config(materialized = "incremental", incremental_strategy = "append") }}

select
    {{ dbt_utils.generate_surrogate_key(['user_id', 'viewed_at']) }} as view_key,
    user_id,
    url,
    viewed_at
from {{ source('web', 'page_views') }}
