from sqlalchemy import MetaData, Table, create_engine
from sqlalchemy.dialects.postgresql import insert

engine = create_engine("postgresql+psycopg2:///inventory")
metadata = MetaData()
products = Table("products", metadata, autoload_with=engine)


def save_products(rows):
    stmt = insert(products).values(rows)
    stmt = stmt.on_conflict_do_update(
        index_elements=[products.c.sku],
        set_={"name": stmt.excluded.name, "price": stmt.excluded.price},
        where=products.c.version < stmt.excluded.version,
    )
    with engine.begin() as conn:
        conn.execute(stmt)
