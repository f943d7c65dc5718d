import pandas as pd
from sqlalchemy import create_engine

engine = create_engine("sqlite:///geo.db")

for i, chunk in enumerate(pd.read_csv("geonames.tsv", sep="\t", chunksize=50_000)):
    chunk = chunk[["geonameid", "name", "country"]]
    chunk.to_sql("geonames", engine, if_exists="replace" if i == 0 else "append", index=False)
    print(f"{(i + 1) * 50_000} rows")
