import json
from pathlib import Path

from elasticsearch import Elasticsearch, helpers

es = Elasticsearch("http://es:9200")


def actions(path: Path):
    for line in path.read_text().splitlines():
        doc = json.loads(line)
        # The document id comes from the data, so indexing again replaces.
        yield {"_op_type": "index", "_index": "products", "_id": doc["sku"], "_source": doc}


def reindex(path: Path) -> None:
    ok, errors = helpers.bulk(es, actions(path), raise_on_error=True)
    print(f"indexed {ok}")


if __name__ == "__main__":
    import sys

    reindex(Path(sys.argv[1]))
