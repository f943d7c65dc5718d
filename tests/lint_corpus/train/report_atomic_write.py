import csv
import logging
import os
import tempfile
from datetime import date, datetime
from pathlib import Path

logging.basicConfig(filename="report.log", filemode="a")
log = logging.getLogger("report")


def note(message: str) -> None:
    with open("run_history.log", "a") as history:
        history.write(f"{datetime.now().isoformat()} {message}\n")


def write_report(day: date, rows: list[dict]) -> Path:
    out = Path(f"reports/{day:%Y-%m-%d}.csv")
    out.parent.mkdir(exist_ok=True)
    started = datetime.now()
    with tempfile.NamedTemporaryFile("w", dir=out.parent, delete=False, newline="") as tmp:
        writer = csv.DictWriter(tmp, fieldnames=sorted(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(tmp.name, out)
    log.info("wrote %s in %s", out, datetime.now() - started)
    note(f"wrote {out}")
    return out
