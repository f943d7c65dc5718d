import io
import pandas as pd
import requests

if "data_loader" not in globals():
    from mage_ai.data_preparation.decorators import data_loader, test


@data_loader
def load_data_from_api(*args, **kwargs):
    day = kwargs["execution_date"].date()
    response = requests.get(f"https://data.example.org/{day}.csv")
    return pd.read_csv(io.StringIO(response.text), sep=",")


@test
def test_output(output, *args) -> None:
    assert output is not None, "The output is undefined"
