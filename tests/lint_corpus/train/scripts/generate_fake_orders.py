"""Developer tool: fill a local database with random orders to click around in."""
import random
import uuid
from datetime import datetime, timedelta

from faker import Faker

fake = Faker()


def fake_order():
    return {
        "id": str(uuid.uuid4()),
        "customer": fake.name(),
        "amount": round(random.uniform(5, 500), 2),
        "ordered_at": datetime.now() - timedelta(days=random.randint(0, 90)),
    }


def main(n=100):
    import json

    with open("fake_orders.json", "w") as f:
        json.dump([fake_order() for _ in range(n)], f, default=str)


if __name__ == "__main__":
    main()
