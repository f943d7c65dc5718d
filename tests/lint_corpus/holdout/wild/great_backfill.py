"""Backfill driver: calls the day job once for each day, in order. Safe to interrupt and repeat."""
import argparse
import subprocess
import sys
from datetime import date, timedelta


def days(start: date, end: date):
    while start < end:
        yield start
        start += timedelta(days=1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("start", type=date.fromisoformat)
    parser.add_argument("end", type=date.fromisoformat)
    args = parser.parse_args()
    if args.end > date.today():
        parser.error("the end lies in the future")
    for day in days(args.start, args.end):
        done = subprocess.run([sys.executable, "-m", "jobs.day", str(day)], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
