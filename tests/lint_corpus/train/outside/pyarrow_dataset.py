import pyarrow as pa
import pyarrow.parquet as pq


def write_new(table: pa.Table, root: str):
    pq.write_to_dataset(table, root_path=root, partition_cols=["day"])


def write_replacing(table: pa.Table, root: str):
    pq.write_to_dataset(
        table, root_path=root, partition_cols=["day"], existing_data_behavior="delete_matching",
        basename_template="part-{i}.parquet",
    )
