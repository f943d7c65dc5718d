"""What the code sends to the outside."""

from __future__ import annotations

import ast
import fnmatch
import re

from twice.lint.collect.module_context import ModuleContext, is_operator
from twice.lint.facts import EffectFact, EffectKind
from twice.lint.resolve.folding import constant
from twice.lint.resolve.module import argument, keyword, literal, method

_HTTP = {"post", "patch"}  # PUT and DELETE of one resource may be repeated
_HTTP_CLIENT = re.compile(
    r"(^|\.)(requests|httpx|aiohttp|session|http|http_client|client_session|s|sess|urllib3)(\(\))?$|(requests|httpx|Session|ClientSession|HttpHook)[\w.()]*$"
)
_HARMLESS = re.compile(
    r"oauth|token|login|log_?in|auth|sign_?in|session|search|query|graphql|/sql|statements|predict|infer|embedding|completions|describe|"
    r"list|filter|lookup|validate|localhost:\d+/(api/)?v1/(sql|query)|execute_sql|connect(ors)?|schema-registry|subjects|refresh|health|"
    r"elastic|9200|_bulk|_search|prometheus|pushgateway|loki|jobs?/run|dagRuns|/runs|submit|api/2\.[01]/|livy|batches|translate|geocode",
    re.IGNORECASE,
)
_HOOK_URL = re.compile(
    r"slack|hooks\.|webhook|discord|telegram|teams|office\.com|notify|alert|pagerduty|opsgenie|mail|sms|twilio", re.I
)
_CREATES = re.compile(
    r"create|/orders?\b|invoice|notify|notif|publish|/send|send_|push|submit_order|dispatch|/events?\b|/messages?\b|/tickets?\b",
    re.I,
)
_PAYMENT = re.compile(r"stripe|charge|payment|payout|refund|invoice|paypal|braintree|adyen|transfer_?funds", re.I)
_CALLS: dict[str, EffectKind] = {
    "chat_postMessage": "chat", "files_upload": "chat", "files_upload_v2": "chat", "send_slack_message": "chat",
    "send_text": "chat", "sendmail": "email", "send_message": "email", "send_email": "email",
    "send_raw_email": "email", "send_mail": "email", "send_sms": "sms", "create_incident": "page",
}  # fmt: skip
_OPERATORS: tuple[tuple[str, EffectKind], ...] = (
    ("Slack", "chat"), ("EmailOperator", "email"), ("DiscordWebhook", "chat"), ("Telegram", "chat"),
    ("OpsgenieCreate", "page"),
    ("SnsPublish", "queue"), ("PubSubPublish", "queue"), ("SqsPublish", "queue"), ("SimpleHttpOperator",
    "http"), ("HttpOperator", "http"),
    ("MSTeams", "chat"), ("SendGrid", "email"),
)  # fmt: skip
_KEYS = re.compile(r"idempoten|dedup|messagededuplication|client_msg_id|x-request-id|unique_key", re.I)


def collect_effects(context: ModuleContext) -> None:
    for call in context.module.calls:
        kind = _kind(context, call)
        if kind is None:
            continue
        place = context.place(call)
        if "callback" in place.within or "except" in place.within:
            continue  # saying that a run failed is not part of the run
        if _is_trigger(context, call):
            continue
        words = context.module.source(call.func, 40) + "()"
        context.gathering.add(EffectFact(place, kind, words, _is_keyed(context, call)))


def _kind(context: ModuleContext, call: ast.Call) -> EffectKind | None:
    name = method(call)
    dotted = context.module.dotted(call.func)
    if any(name == own or fnmatch.fnmatch(dotted, own) for own in context.settings.effect_calls):
        return "http"
    if is_operator(name):
        return _operator(context, call, name)
    receiver = context.module.origin(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name in _HTTP or name == "request":
        return _http(context, call, name, dotted, receiver)
    if dotted.endswith("send_email") or name in _CALLS:
        return _named(context, call, name, dotted, receiver)
    if re.search(r"stripe\.\w+\.create|\.(charges|payment_intents|transfers|payouts|refunds)\.create$", dotted):
        return "payment"
    if name == "messages.create" or (
        name == "create" and dotted.endswith("messages.create") and context.imports_any("twilio")
    ):
        return "sms"
    words = receiver + dotted + context.module.source(call.func, 80)
    if name == "publish" and re.search(r"sns|Publisher|pubsub|mqtt|redis|paho", words, re.I):
        return "queue" if not re.search(r"redis", receiver, re.I) else None
    if name in (
        "send",
        "produce",
        "basic_publish",
        "put_record",
        "put_records",
        "put_events",
        "send_messages",
        "send_and_wait",
    ):
        return _queue(name, receiver, dotted)
    if name in ("send", "execute") and re.search(r"Slack|Webhook|Telegram|Teams|Discord", receiver):
        return "chat"
    return None


def _operator(context: ModuleContext, call: ast.Call, name: str) -> EffectKind | None:
    if name.endswith("Sensor"):
        return None
    for word, kind in _OPERATORS:
        if word in name:
            verb = constant(context.module, keyword(call, "method")).upper()
            if kind == "http" and (
                verb == "GET" or _HARMLESS.search(constant(context.module, keyword(call, "endpoint")))
            ):
                return None
            return kind
    return None


def _http(context: ModuleContext, call: ast.Call, name: str, dotted: str, receiver: str) -> EffectKind | None:
    client = _HTTP_CLIENT.search(receiver) or _HTTP_CLIENT.search(dotted.rsplit(".", 1)[0])
    if not client or not isinstance(call.func, ast.Attribute):
        return None
    verb = name
    url_node = argument(call, 0, "url")
    if name == "request":
        verb = constant(context.module, argument(call, 0, "method")).lower()
        url_node = argument(call, 1, "url")
        if verb not in _HTTP:
            return None
    url = constant(context.module, url_node) + " " + (context.module.source(url_node) if url_node is not None else "")
    function = context.module.owner(call)
    around = url + " " + (function.name if function is not None else "")
    # A webhook first: a channel about refunds is still a channel.
    if _HOOK_URL.search(url):
        return "chat"
    if _PAYMENT.search(url):
        return "payment"
    if _HARMLESS.search(url):
        return None
    if _CREATES.search(around):
        return "http"
    if _HARMLESS.search(around) or _reads_answer(context, call):
        return None
    return "http"


def _reads_answer(context: ModuleContext, call: ast.Call) -> bool:
    """A POST that is answered with the data (a search, a report): the code reads its JSON and keeps it."""
    parent = context.module.parent.get(call)
    if isinstance(parent, ast.Attribute) and parent.attr in ("json", "text", "content"):
        return True
    if isinstance(parent, ast.Await):
        parent = context.module.parent.get(parent)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    uses = context.module.uses(parent.targets[0].id, context.module.unit(call))
    for use in uses:
        holder = context.module.parent.get(use)
        if isinstance(holder, ast.Attribute) and holder.attr in ("json", "content", "text"):
            outer = [type(item) for item in context.module.ancestors(holder)]
            inside_message = any(
                isinstance(item, ast.Call)
                and method(item)
                in (
                    "print",
                    "info",
                    "error",
                    "debug",
                    "warning",
                    "Exception",
                    "AirflowException",
                    "RuntimeError",
                    "ValueError",
                )
                for item in context.module.ancestors(holder)
            )
            if not inside_message and outer:
                return True
    return False


def _named(context: ModuleContext, call: ast.Call, name: str, dotted: str, receiver: str) -> EffectKind | None:
    kind = _CALLS.get(name, "email")
    if name == "send_message":
        if re.search(r"sqs|sns|queue", receiver + dotted, re.I) or keyword(call, "QueueUrl", "MessageBody") is not None:
            return "queue"
        if re.search(r"smtp|mail|server", receiver + dotted, re.I):
            return "email"
        return "chat" if re.search(r"bot|telegram|slack|discord", receiver + dotted, re.I) else None
    if name == "send_email" and isinstance(call.func, ast.Name) and "send_email" in context.module.functions:
        return None  # the function itself is read where it is defined
    return kind


def _queue(name: str, receiver: str, dotted: str) -> EffectKind | None:
    words = receiver + " " + dotted
    if name in ("put_record", "put_records", "put_events", "basic_publish", "send_messages"):
        return "queue"
    if re.search(r"producer|Producer", words):
        return "queue"
    if name == "send" and re.search(r"Slack|Webhook|SendGrid|mail|Telegram", words, re.I):
        return "chat" if not re.search(r"mail|SendGrid", words, re.I) else "email"
    return None


def _is_keyed(context: ModuleContext, call: ast.Call) -> bool:
    if keyword(call, "key") is not None and method(call) in ("send", "produce", "send_and_wait"):
        return True
    text = context.module.source(call, 3000)
    for part in ast.walk(call):
        if isinstance(part, ast.Name):
            value = context.module.value(part)
            if isinstance(value, (ast.Dict, ast.Call)):
                text += context.module.source(value, 1500)
    if _KEYS.search(text):
        return True
    function = context.module.owner(call)
    return function is not None and any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and re.match(r"idempotency", part.value, re.I)
        for part in ast.walk(function)
    )


def _is_trigger(context: ModuleContext, call: ast.Call) -> bool:
    """An operator that only runs when something failed is a callback in another form."""
    rule = keyword(call, "trigger_rule")
    if rule is None:
        return False
    text = constant(context.module, rule) or context.module.source(rule)
    return bool(re.search(r"one_failed|all_failed", text, re.I)) or literal(rule) in ("one_failed", "all_failed")
