select
    entry_id,
    account,
    amount,
    booked_at
from {{ ref('stg_entries') }}
{% if is_incremental() %}
where booked_at >= (select timestamp_sub(max(booked_at), interval 2 day) from {{ this }})
{% endif %}
qualify row_number() over (partition by entry_id order by booked_at desc, entry_version desc) = 1
