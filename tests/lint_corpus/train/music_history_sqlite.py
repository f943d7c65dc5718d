import sqlite3
import datetime
import requests
import pandas as pd
import sqlalchemy
from sqlalchemy.orm import sessionmaker

DATABASE_LOCATION = "sqlite:///my_played_tracks.sqlite"
TOKEN = ""  # paste here


def check_if_valid_data(df: pd.DataFrame) -> bool:
    if df.empty:
        print("No songs downloaded. Finishing execution")
        return False
    if not pd.Series(df["played_at"]).is_unique:
        raise Exception("Primary key check violated")
    if df.isnull().values.any():
        raise Exception("Null values found")
    return True


def run_etl():
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Authorization": "Bearer {token}".format(token=TOKEN),
    }
    today = datetime.datetime.now()
    yesterday = today - datetime.timedelta(days=1)
    yesterday_unix_timestamp = int(yesterday.timestamp()) * 1000
    r = requests.get(
        "https://api.music.example/v1/me/player/recently-played?after={time}".format(time=yesterday_unix_timestamp),
        headers=headers,
    )
    data = r.json()

    song_names = []
    artist_names = []
    played_at_list = []
    for song in data["items"]:
        song_names.append(song["track"]["name"])
        artist_names.append(song["track"]["album"]["artists"][0]["name"])
        played_at_list.append(song["played_at"])

    song_df = pd.DataFrame({"song_name": song_names, "artist_name": artist_names, "played_at": played_at_list})
    if check_if_valid_data(song_df):
        print("Data valid, proceed to load stage")

    engine = sqlalchemy.create_engine(DATABASE_LOCATION)
    conn = sqlite3.connect("my_played_tracks.sqlite")
    cursor = conn.cursor()
    cursor.execute("""
    CREATE TABLE IF NOT EXISTS my_played_tracks(
        song_name VARCHAR(200),
        artist_name VARCHAR(200),
        played_at VARCHAR(200),
        CONSTRAINT primary_key_constraint PRIMARY KEY (played_at)
    )
    """)
    print("Opened database successfully")

    try:
        song_df.to_sql("my_played_tracks", engine, index=False, if_exists="append")
    except:
        print("Data already exists in the database")

    conn.close()
    print("Close database successfully")
