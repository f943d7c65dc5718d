from datetime import date, datetime

import click


@click.command()
@click.option("--day", default=lambda: date.today().isoformat(), help="day to load")
@click.option("--full/--no-full", default=False)
def main(day, full):
    run(day, full)


def run(day, full):
    click.echo(f"loading {day} {full}")


def backfill(start=None, end=None):
    if end is None:
        end = datetime.now()
    start = start or datetime(2020, 1, 1)
    print(start, end)
