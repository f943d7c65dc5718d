import configparser

import psycopg2

config = configparser.ConfigParser()
config.read("dwh.cfg")


def reload_table(table, s3_path):
    conn = psycopg2.connect(**config["REDSHIFT"])
    conn.autocommit = True
    cur = conn.cursor()
    cur.execute(f"truncate {table}")
    cur.execute(
        f"copy {table} from '{s3_path}' iam_role '{config['IAM']['ARN']}' format as parquet;"
    )
    cur.execute("insert into etl_log(table_name, finished) values (%s, getdate())", (table,))
    conn.close()


for t in ("store", "item", "store_sales"):
    reload_table(t, f"s3://tpcds/{t}/")
