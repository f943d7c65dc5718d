import argparse
import glob
from datetime import date

import pandas as pd


def main():
    parser = argparse.ArgumentParser(description="csv -> partitioned parquet")
    parser.add_argument("--date", default=date.today().isoformat())
    parser.add_argument("--out", default="lake/trades")
    args = parser.parse_args()

    newest = sorted(glob.glob("landing/trades_*.csv"))[-1]
    df = pd.read_csv(newest)
    df["ds"] = args.date
    audit = df.sample(frac=0.01)
    audit.to_csv(f"audit/{args.date}.csv", index=False)
    df.to_parquet(args.out, partition_cols=["ds"])


if __name__ == "__main__":
    main()
