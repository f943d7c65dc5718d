{{ config(materialized='incremental', incremental_strategy='append') }}

select r.rate_id, r.currency, r.rate, r.valid_on
from {{ source('ecb', 'rates') }} r
{% if is_incremental() %}
where r.rate_id not in (select rate_id from {{ this }})
{% endif %}
