import stripe
from celery import Celery

app = Celery("billing", broker="redis://redis/0")


@app.task(bind=True, autoretry_for=(stripe.APIConnectionError,), retry_backoff=True, max_retries=5)
def charge_invoice(self, invoice):
    charge = stripe.Charge.create(
        amount=invoice["total_cents"],
        currency="eur",
        customer=invoice["customer"],
        idempotency_key=f"invoice-{invoice['number']}",
    )
    with app.db.begin() as conn:
        conn.exec_driver_sql(
            "UPDATE invoices SET paid = true, charge_id = %s WHERE number = %s", (charge.id, invoice["number"])
        )
