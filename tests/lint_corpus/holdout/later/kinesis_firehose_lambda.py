import base64
import json
from datetime import datetime


def handler(event, context):
    out = []
    for record in event["records"]:
        payload = json.loads(base64.b64decode(record["data"]))
        payload["event_date"] = datetime.utcfromtimestamp(payload["ts"]).strftime("%Y-%m-%d")
        out.append({
            "recordId": record["recordId"],
            "result": "Ok",
            "data": base64.b64encode((json.dumps(payload) + "\n").encode()).decode(),
        })
    return {"records": out}
