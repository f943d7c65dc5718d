import csv

from django.core.management.base import BaseCommand

from shop.models import Product


class Command(BaseCommand):
    def add_arguments(self, parser):
        parser.add_argument("path")

    def handle(self, *args, **options):
        with open(options["path"]) as f:
            for row in csv.DictReader(f):
                Product.objects.update_or_create(sku=row["sku"], defaults={"title": row["title"], "price": row["price"]})
