with raw as (
    select * from {{ source('shop', 'orders') }}
)

{% for column in ['amount_cents', 'tax_cents'] %}
{% if not loop.first %}-- {{ column }}{% endif %}
{% endfor %}

select
    id as order_id,
    customer_id,
    amount_cents,
    updated_at,
    ingest_seq
from raw
where not _fivetran_deleted
