{{ config(materialized='incremental', unique_key='ticket_uid') }}

select
    uuid_string() as ticket_uid,
    ticket_no,
    any_value(subject) as subject,
    max(changed_at) as changed_at
from {{ ref('stg_tickets') }}
{% if is_incremental() %}
where changed_at >= current_date - 3
{% endif %}
group by ticket_no
