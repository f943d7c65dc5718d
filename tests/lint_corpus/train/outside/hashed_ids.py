import hashlib
import uuid

NAMESPACE = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def row_id(row):
    return hashlib.sha256("|".join(map(str, row)).encode()).hexdigest()


def with_ids(rows):
    return [{"id": row_id(r), "uid": str(uuid.uuid5(NAMESPACE, str(r))), "row": r} for r in rows]
