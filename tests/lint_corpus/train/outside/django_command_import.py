from decimal import Decimal
import csv

from django.core.management.base import BaseCommand
from django.db.models import F

from shop.models import Customer, Purchase


class Command(BaseCommand):
    help = "Imports the purchases of the tills"

    def add_arguments(self, parser):
        parser.add_argument("path")

    def handle(self, *args, **options):
        purchases = []
        with open(options["path"]) as f:
            for row in csv.DictReader(f):
                purchases.append(Purchase(receipt=row["receipt"], amount=Decimal(row["amount"])))
                Customer.objects.filter(pk=row["customer"]).update(total_spent=F("total_spent") + Decimal(row["amount"]))
        Purchase.objects.bulk_create(purchases, batch_size=500)
