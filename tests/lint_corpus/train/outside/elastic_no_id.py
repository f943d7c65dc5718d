from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

es = Elasticsearch()


def index_logs(lines):
    actions = ({"_index": "logs", "_source": {"line": line}} for line in lines)
    bulk(es, actions)
