from __future__ import annotations

from collections.abc import Iterator

from twice.lint.facts import EffectFact
from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule

_WHO = {
    "http": "The receiver gets the request",
    "chat": "The channel gets the message",
    "email": "People get the mail",
    "sms": "People get the message",
    "payment": "The customer is charged",
    "queue": "Consumers get the message",
    "page": "Somebody is paged",
}


class EffectNoKey(Rule):
    """Something is sent to another system with no key that lets the receiver recognise a repetition.

    What it does
        Finds non-GET requests, chat, mail, SMS, payments and queue publishes in code that is retried or re-
        run, with no idempotency or deduplication key.

    Why it breaks a re-run
        It is sent again on every retry and re-run, and by a backfill once for every day.

    When it is fine
        Callbacks on failure or success are not reported; nor are logins, searches and queries sent by POST.
    """

    code = "TW801"
    name = "effect-no-key"
    severity = "warning"
    BAD = (
        Case(
            "import requests\n"
            "\n"
            "def notify(order):\n"
            '    requests.post("https://partner.example.com/orders", json=order)\n',
            lines=(4,),
        ),
        Case(
            'import stripe\n\ndef charge(order):\n    stripe.Charge.create(amount=order["amount"])\n',
            lines=(4,),
        ),
    )
    GOOD = (
        Case(
            "import requests\n"
            "\n"
            "def notify(order, key):\n"
            '    requests.post("https://partner.example.com/orders", json=order, '
            'headers={"Idempotency-Key": key})\n',
        ),
        Case(
            "import requests\n"
            "\n"
            "def on_failure_callback(context):\n"
            '    requests.post("https://hooks.slack.com/x", json={})\n',
        ),
        Case(
            "import requests\n"
            "\n"
            "def token():\n"
            '    return requests.post("https://idp.example.com/oauth/token", data={}).json()\n',
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for effect in file.effects:
            if effect.keyed or "callback" in effect.place.within:
                continue
            if "transform" in effect.place.within:
                continue
            yield self._of(file, effect)

    def _of(self, file: FileFacts, effect: EffectFact) -> Finding:
        return self.finding(
            file,
            effect.place,
            f"`{effect.call}` has no key: {_WHO[effect.kind]} once per attempt. Three retries, four times; "
            "a backfill of a "
            "year, 365 times.",
            "Send an idempotency key made of the run's slice and the row, or write to an outbox that is "
            "sent once after the commit.",
            declaration="effects=[…]  # sent once per published slice, silent in backfills",
            severity="error" if effect.kind == "payment" else "warning",
        )
