"""Calls webhooks when runs end, signed as https://www.standardwebhooks.com/ specifies."""

import base64
import hmac
import time
from collections.abc import Callable
from typing import Any

import msgspec

from warren.scheduler.alarms.channels.message import Message
from warren.scheduler.alarms.channels.webhook import Webhook
from warren.sql.instants import iso
from warren.sql.models import Alarm

#: The facts that are sent unchanged.
_DATA = ("app", "job", "run_id", "first_run_id", "kind", "status", "message", "address")


class SignedWebhook:
    """Posts each end, with the signature of each key of its app.

    Args:
        webhook: sends the requests.
        keys: returns the keys of an app, by its name.
        now: seconds since the epoch, as receivers know them.

    """

    def __init__(
        self,
        webhook: Webhook,
        keys: Callable[[str], tuple[bytes, ...]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._webhook = webhook
        self._keys = keys
        self._now = now

    def send(self, alarm: Alarm, message: Message) -> str:
        """Post one end and return the answer in words, or raise OSError or ValueError.

        Neither text holds the URL.
        """
        facts, is_test = message.facts, "is_success" not in message.facts
        content = msgspec.json.encode(_test(facts) if is_test else _body(facts))
        # A tick ends once, so a duplicate has the same id.
        name = f"test-{alarm.id}" if is_test else f"run-{facts['first_run_id']}"
        at = str(int(self._now()))
        signatures = [sign(key, name, at, content) for key in self._keys(facts["app"])]
        headers = {
            "webhook-id": name,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(signatures),
        }
        return self._webhook.post(alarm.target, content, headers).in_words()


def sign(key: bytes, name: str, at: str, content: bytes) -> str:
    """Return a version 1 signature: HMAC-SHA256 over id, instant and body."""
    digest = hmac.digest(key, f"{name}.{at}.".encode() + content, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def _test(facts: dict[str, Any]) -> dict[str, Any]:
    data = {name: facts[name] for name in ("app", "job", "who")}
    return {"type": "test", "timestamp": iso(facts["at"]), "data": data}


def _body(facts: dict[str, Any]) -> dict[str, Any]:
    instants = {name: iso(facts[name]) for name in ("scheduled_at", "finished_at")}
    link = {"url": facts["url"]} if "url" in facts else {}
    return {
        "type": "run.succeeded" if facts["is_success"] else "run.failed",
        "timestamp": instants["finished_at"],
        "data": {name: facts[name] for name in _DATA} | instants | link,
    }
