import psycopg2

UPSERT = """
begin;
create temp table stage (like public.listing);
copy stage from %(path)s iam_role %(role)s format as parquet;
delete from public.listing using stage where public.listing.list_id = stage.list_id;
insert into public.listing select * from stage;
end;
"""


def load(dsn: str, path: str, role: str) -> None:
    connection = psycopg2.connect(dsn)
    connection.autocommit = True  # the script opens and ends its own transaction
    with connection.cursor() as cursor:
        cursor.execute(UPSERT, {"path": path, "role": role})
    connection.close()
