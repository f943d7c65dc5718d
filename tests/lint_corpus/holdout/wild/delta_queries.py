"""Statements of the three-hourly delta load, by table."""
from param import window

delta_query = {
    "customers": "drop table if exists ids; create temp table ids as select distinct id from app.customers where updated_at >= '"
    + str(window.start) + "' and updated_at < '" + str(window.end) + "'; delete from stage.customers where id in (select id from ids); "
    "insert into stage.customers select * from (select *, row_number() over (partition by id order by updated_at desc, seq desc) as rnk "
    "from app.customers where updated_at >= '" + str(window.start) + "' and updated_at < '" + str(window.end) + "') t where rnk = 1;",
    "visits": "insert into stage.visits select * from app.visits where visited_at >= '"
    + str(window.start) + "' and visited_at < '" + str(window.end) + "';",
}
