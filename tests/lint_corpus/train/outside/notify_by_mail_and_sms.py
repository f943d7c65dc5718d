import os
import boto3
from sendgrid import SendGridAPIClient
from sendgrid.helpers.mail import Mail
from twilio.rest import Client

ses = boto3.client("ses")


def remind(customers):
    sms = Client(os.environ["TWILIO_SID"], os.environ["TWILIO_TOKEN"])
    for c in customers:
        if c["channel"] == "sms":
            sms.messages.create(to=c["phone"], from_="+4930123", body="Your invoice is due")
        elif c["channel"] == "mail":
            SendGridAPIClient(os.environ["SG"]).send(Mail("a@b.c", c["mail"], "Invoice", "due"))
        else:
            ses.send_email(Source="a@b.c", Destination={"ToAddresses": [c["mail"]]}, Message={})
