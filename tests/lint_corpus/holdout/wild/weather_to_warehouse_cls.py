import os
import requests
import psycopg2
from dataclasses import dataclass
from datetime import datetime


@dataclass
class Reading:
    city: str
    temp: float
    humidity: int
    read_at: datetime


class WeatherPipeline:
    def __init__(self, cities):
        self.cities = cities
        self.conn = None

    def connect(self):
        self.conn = psycopg2.connect(
            host=os.getenv("PG_HOST"), dbname=os.getenv("PG_DB"), user=os.getenv("PG_USER"), password=os.getenv("PG_PASS")
        )

    def fetch(self, city):
        r = requests.get("https://weather.example/current", params={"q": city, "appid": os.getenv("KEY")})
        d = r.json()
        return Reading(city, d["main"]["temp"], d["main"]["humidity"], datetime.now())

    def create_table(self):
        with self.conn.cursor() as c:
            c.execute("""create table if not exists weather (id serial primary key, city text, temp real, humidity int, read_at timestamp)""")
        self.conn.commit()

    def insert(self, r):
        with self.conn.cursor() as c:
            c.execute(
                "insert into weather (city, temp, humidity, read_at) values (%s, %s, %s, %s)",
                (r.city, r.temp, r.humidity, r.read_at),
            )
        self.conn.commit()

    def run(self):
        self.connect()
        self.create_table()
        for city in self.cities:
            self.insert(self.fetch(city))
        self.conn.close()


if __name__ == "__main__":
    WeatherPipeline(["Berlin", "Lisbon"]).run()
