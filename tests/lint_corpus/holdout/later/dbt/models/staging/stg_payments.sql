with source as (
    select * from {{ source('stripe', 'payments') }}
),
renamed as (
    select id as payment_id, orderid as order_id, amount / 100 as amount, created
    from source
    where created > dateadd(year, -2, current_date)
)
select * from renamed
