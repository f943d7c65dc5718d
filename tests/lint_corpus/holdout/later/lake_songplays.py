import configparser
import os
from datetime import datetime
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf, col, monotonically_increasing_id
from pyspark.sql.functions import year, month, dayofmonth, hour, weekofyear, date_format

config = configparser.ConfigParser()
config.read('dl.cfg')
os.environ['AWS_ACCESS_KEY_ID'] = config['AWS']['KEY']


def create_spark_session():
    return SparkSession.builder.config("spark.jars.packages", "org.apache.hadoop:hadoop-aws:2.7.0").getOrCreate()


def process_song_data(spark, input_data, output_data):
    df = spark.read.json(input_data + "song_data/*/*/*/*.json")
    songs_table = df.select("song_id", "title", "artist_id", "year", "duration").dropDuplicates(["song_id"])
    songs_table.write.partitionBy("year", "artist_id").parquet(output_data + "songs/", mode="overwrite")
    artists_table = df.select("artist_id", "artist_name").distinct()
    artists_table.write.mode("overwrite").parquet(output_data + "artists/")


def process_log_data(spark, input_data, output_data):
    df = spark.read.json(input_data + "log_data/*/*/*.json").filter("page = 'NextSong'")
    get_timestamp = udf(lambda x: datetime.fromtimestamp(x / 1000).strftime("%Y-%m-%d %H:%M:%S"))
    df = df.withColumn("start_time", get_timestamp(df.ts))
    songs = spark.read.parquet(output_data + "songs/")
    plays = df.join(songs, df.song == songs.title, "left") \
        .withColumn("songplay_id", monotonically_increasing_id()) \
        .select("songplay_id", "start_time", "userId", "song_id", year("start_time").alias("y"), month("start_time").alias("m"))
    plays.write.mode("overwrite").partitionBy("y", "m").parquet(output_data + "songplays/")


def main():
    spark = create_spark_session()
    process_song_data(spark, "s3a://udacity/", "s3a://mine/")
    process_log_data(spark, "s3a://udacity/", "s3a://mine/")


if __name__ == "__main__":
    main()
