import json

import requests
from pyspark.sql import SparkSession


def push_partition(rows):
    with requests.Session() as http:
        for row in rows:
            http.post("https://crm.internal/api/contacts", data=json.dumps(row.asDict()), timeout=30)


def main():
    spark = SparkSession.builder.appName("push-crm").getOrCreate()
    contacts = spark.read.table("mart.contacts_changed")
    contacts.repartition(8).foreachPartition(push_partition)


if __name__ == "__main__":
    main()
