from __future__ import annotations

import argparse
import datetime as dt
import time
from pathlib import Path

import polars as pl

CACHE_TTL = dt.timedelta(hours=1)


def cached_rates(path: Path) -> pl.DataFrame | None:
    if path.exists() and dt.datetime.now() - dt.datetime.fromtimestamp(path.stat().st_mtime) < CACHE_TTL:
        return pl.read_parquet(path)
    return None


def convert(day: dt.date, root: Path) -> Path:
    began = time.monotonic()
    frame = pl.scan_csv(root / "in" / f"{day}.csv").unique(subset=["id"], keep="last", maintain_order=True).sort("id")
    out = root / "out" / f"day={day}" / "part.parquet"
    out.parent.mkdir(parents=True, exist_ok=True)
    frame.collect().write_parquet(out)
    print(f"{out} in {time.monotonic() - began:.1f}s at {dt.datetime.now():%H:%M}")
    return out


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("day", type=dt.date.fromisoformat)
    convert(p.parse_args().day, Path("lake"))
