select order_id, status, amount
from {{ ref('stg_orders') }}
{% if target.name != 'prod' %}
where created_at > current_date - 7
limit 1000
{% endif %}
