{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='quoted_at', batch_size='day', begin='2023-01-01') }}

select currency, max(rate) as high, min(rate) as low, cast(quoted_at as date) as day
from {{ ref('stg_quotes') }}
group by currency, cast(quoted_at as date)
