{{ config(materialized='incremental') }}

with src as (
    select * from {{ ref('stg_orders') }}
    {% if is_incremental() %}
    where updated_at > (select max(updated_at) from {{ this }})
    {% endif %}
)

select
    order_id,
    customer_id,
    amount,
    updated_at,
    {{ current_timestamp() }} as dbt_loaded_at
from src
