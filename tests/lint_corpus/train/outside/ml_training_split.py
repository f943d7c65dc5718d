import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split


def prepare(path):
    df = pd.read_parquet(path)
    df = df.sample(frac=1)
    train, test = train_test_split(df, test_size=0.2)
    df["noise"] = np.random.rand(len(df))
    train.to_parquet("train.parquet")
    test.to_parquet("test.parquet")
