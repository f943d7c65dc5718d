import os
import pandas as pd


def save(df, path="results/daily.csv"):
    df.to_csv(path, mode="a", header=not os.path.exists(path), index=False)


def update_history(new_file, history="history.parquet"):
    old = pd.read_parquet(history)
    new = pd.read_parquet(new_file)
    full = pd.concat([old, new])
    full.to_parquet(history)
