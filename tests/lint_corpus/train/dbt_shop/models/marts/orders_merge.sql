{{
    config(
        materialized='incremental',
        unique_key='order_id',
        incremental_strategy='merge',
        on_schema_change='append_new_columns'
    )
}}

with source as (

    select * from {{ ref('stg_orders') }}
    {% if is_incremental() %}
    where updated_at >= (select dateadd('day', -3, max(updated_at)) from {{ this }})
    {% endif %}

),

ranked as (

    select
        *,
        row_number() over (partition by order_id order by updated_at desc, ingest_seq desc) as rn
    from source

)

select
    order_id,
    customer_id,
    {{ cents_to_euro('amount_cents') }} as amount,
    updated_at
from ranked
where rn = 1
