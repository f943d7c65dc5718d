import argparse
from datetime import date, datetime


def parse_day(text):
    return datetime.strptime(text, "%Y-%m-%d").date()


def main(day: date = None):
    if day is None:
        raise SystemExit("--day is required")
    print(f"started {datetime.now():%H:%M:%S} for {day}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--day", type=parse_day)
    main(p.parse_args().day)
