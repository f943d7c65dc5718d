{{
  config(
    materialized = 'incremental',
    post_hook = "insert into audit.runs select '{{ this }}', current_timestamp()"
  )
}}

select
  account,
  current_date() as snapshot_date,
  sum(amount) as balance
from {{ ref('ledger_entries') }}
{% if is_incremental() %}
where booked_at < current_timestamp()
{% endif %}
group by account
