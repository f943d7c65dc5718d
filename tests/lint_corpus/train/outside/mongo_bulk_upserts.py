from pymongo import MongoClient, UpdateOne, ReplaceOne

db = MongoClient().crm


def sync(contacts):
    ops = [UpdateOne({"_id": c["id"]}, {"$set": c}, upsert=True) for c in contacts]
    db.contacts.bulk_write(ops)
    db.meta.replace_one({"_id": "contacts"}, {"_id": "contacts", "count": len(contacts)}, upsert=True)
