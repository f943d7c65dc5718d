import stripe
from prefect import flow, task


@task(retries=3, retry_delay_seconds=60)
def pay(partner):
    stripe.Transfer.create(amount=partner["cents"], currency="eur", destination=partner["account"])


@task(retries=3)
def pay_once(partner, month):
    stripe.Transfer.create(
        amount=partner["cents"], currency="eur", destination=partner["account"],
        idempotency_key=f"payout-{partner['id']}-{month}",
    )


@flow
def payouts(partners, month):
    for p in partners:
        pay.submit(p)
