{{ config(
    materialized='incremental',
    unique_key='order_id',
    on_schema_change='fail'
) }}
with orders as (select * from {{ ref('stg_orders') }}),
payments as (
    select order_id, sum(amount) as amount
    from {{ ref('stg_payments') }}
    group by 1
)
select o.order_id, o.customer_id, o.order_date, coalesce(p.amount, 0) as amount
from orders o
left join payments p using (order_id)
{% if is_incremental() %}
where o.order_date >= (select dateadd(day, -3, max(order_date)) from {{ this }})
{% endif %}
