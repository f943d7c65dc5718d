{% macro grant_select(role) %}
  {% set sql %}
    grant select on all tables in schema {{ target.schema }} to {{ role }};
  {% endset %}
  {% do run_query(sql) %}
{% endmacro %}
