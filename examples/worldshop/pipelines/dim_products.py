"""Every product as it is now: the catalogue, and the changes that came since."""

from twice import Daily, audit, merge, read, surrogate_key, task


@task(
    "shop.dim_products",
    scope=Daily("change_date", start="2026-01-01"),
    inputs={"products": read("shop.products"), "changes": read("shop.product_changes", by="change_date")},
    write=merge("product_id", newest_by="updated_at"),
    audits=[audit.not_null("sku", "price_usd"), audit.expression("price_usd > 0")],
)
def dim_products(products, changes):  # a product may come several times: the newest row wins, whatever the order
    return products.unionByName(changes.drop("change_date")).withColumn("product_sk", surrogate_key("product_id"))
