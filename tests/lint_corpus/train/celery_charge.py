import stripe
from celery import Celery
from celery.utils.log import get_task_logger

app = Celery("billing", broker="redis://redis/0")
logger = get_task_logger(__name__)


@app.task(bind=True, autoretry_for=(Exception,), retry_backoff=True, max_retries=5)
def charge_invoice(self, invoice):
    charge = stripe.Charge.create(
        amount=invoice["total_cents"],
        currency="eur",
        customer=invoice["customer"],
        description=f"Invoice {invoice['number']}",
    )
    with app.db.begin() as conn:
        conn.exec_driver_sql(
            "UPDATE invoices SET paid = true, charge_id = %s WHERE number = %s", (charge.id, invoice["number"])
        )
    logger.info("charged %s", invoice["number"])
