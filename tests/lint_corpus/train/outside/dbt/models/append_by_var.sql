{{- config(
    materialized = 'incremental',
    partition_by = {"field": "day"}
) -}}
select * from {{ source('web', 'hits') }}
{% if is_incremental() %} where day = '{{ var("day") }}' {% endif %}
