"""Webhooks: alarms, and signed calls at the ends of runs, each one POST to a checked address.

Redirects are not followed. Of an answer, only its status is kept, and how a chat service refuses.
Signatures follow https://www.standardwebhooks.com/.
"""

import base64
import hmac
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from warren.broker.messages import result_value
from warren.scheduler.alarms.addresses import (
    EVERYWHERE,
    WebhookAllowList,
    check_webhook,
)
from warren.scheduler.alarms.message import (
    SIGNED,
    Message,
    signed_body,
    webhook_body,
    webhook_refusal,
)
from warren.scheduler.alarms.sender import SEND_SECONDS, Deadline, RefusedForGood
from warren.sql.instants import iso
from warren.sql.models import Alarm
from warren.sql.run_status import RunStatus

#: How long the server may be silent.
SILENCE_SECONDS = 10.0
_PORTS = {"http": 80, "https": 443}
_ANSWER_BYTES = 65_536
_GOOD = range(200, 300)
_REDIRECTS = range(300, 400)
_REFUSALS = range(400, 500)
#: A request that took too long, came too early, or one of too many.
_PASSING = frozenset({408, 425, 429})


class _Address(NamedTuple):
    family: int
    sockaddr: Any


class Answer(NamedTuple):
    """What a receiver answered; the body is for a chat service's code only."""

    status: int
    body: bytes

    def in_words(self) -> str:
        """Return the part of the answer that may be shown."""
        return f"it answered {self.status}"


class Webhook:
    """Sends each alarm over a separate connection.

    Args:
        webhook_allow_list: where webhooks may go.
        secret_of: returns the secret for an alarm's target; empty = it is not signed.
        now: seconds since the epoch, as receivers know them.
        send_seconds: the time limit for one request in all.
        silence_seconds: how long the server may be silent.

    """

    def __init__(
        self,
        webhook_allow_list: WebhookAllowList = EVERYWHERE,
        *,
        secret_of: Callable[[Alarm], str] = lambda _alarm: "",
        now: Callable[[], float] = time.time,
        send_seconds: float = SEND_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._allow_list = webhook_allow_list
        self._secret_of = secret_of
        self._now = now
        self._send_seconds = send_seconds
        self._silence_seconds = silence_seconds

    def send(self, alarm: Alarm, message: Message) -> str:
        """Post one alarm and return the answer in words, or raise OSError or ValueError.

        Neither text holds the URL.
        """
        body, query = webhook_body(alarm.channel, message, alarm.id), ""
        if alarm.channel in SIGNED and (secret := self._secret_of(alarm)):
            body, query = signed_body(alarm.channel, body, secret, self._now())
        answer = self.post(alarm.target, body, query=query)
        refusal = webhook_refusal(alarm.channel, alarm.target, answer.body)
        if refusal.words:
            raise (RefusedForGood if refusal.is_final else OSError)(refusal.words)
        return answer.in_words()

    def post(
        self,
        target: str,
        content: bytes,
        headers: Mapping[str, str] = MappingProxyType({}),
        *,
        query: str = "",
    ) -> Answer:
        """Post JSON to a URL, with more query, and return the answer; raises as `send` does."""
        try:
            check_webhook(target)
        except ValueError as error:
            raise ValueError("this URL is not allowed as a webhook") from error
        try:
            with Deadline(self._send_seconds) as deadline:
                url = urlsplit(target)
                url = url._replace(query="&".join(filter(None, (url.query, query))))
                answer = self._post(url, content, headers, deadline.watch)
        except http.client.HTTPException as error:
            raise OSError(f"it does not speak HTTP: {type(error).__name__}") from error
        if answer.status in _REDIRECTS:
            raise OSError(f"{answer.in_words()}; redirects are not followed")
        if answer.status in _REFUSALS and answer.status not in _PASSING:
            raise RefusedForGood(answer.in_words())
        if answer.status not in _GOOD:
            raise OSError(answer.in_words())
        return answer

    def _post(
        self,
        url: SplitResult,
        content: bytes,
        more: Mapping[str, str],
        watch: Callable[[socket.socket], None],
    ) -> Answer:
        host, port = url.hostname or "", url.port or _PORTS[url.scheme]
        connection = http.client.HTTPConnection(host, port, timeout=self._silence_seconds)
        try:
            addresses = self._addresses(host, port)
            connection.sock = self._connect(url.scheme, host, addresses, watch)
            headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "warren"}
            headers |= {"Host": _host(url), **more}
            connection.request("POST", _path(url), content, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(_ANSWER_BYTES))
        finally:
            connection.close()

    def _addresses(self, host: str, port: int) -> list[_Address]:
        """Resolve a name once, and check every address."""
        addresses = [
            _Address(family, sockaddr)
            for family, _, _, _, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        ]
        for address in addresses:
            self._allow_list.admit(host, port, str(address.sockaddr[0]))
        return addresses

    def _connect(
        self,
        scheme: str,
        host: str,
        addresses: Iterable[_Address],
        watch: Callable[[socket.socket], None],
    ) -> socket.socket:
        """Connect to the first address that answers."""
        failure: OSError | None = None
        for family, sockaddr in addresses:
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.settimeout(self._silence_seconds)
            try:
                watch(connection)
                connection.connect(sockaddr)
                if scheme == "https":
                    return ssl.create_default_context().wrap_socket(
                        connection, server_hostname=host
                    )
            except OSError as error:
                connection.close()
                failure = error
            else:
                return connection
        raise failure or OSError(f"{host} has no address")


def _path(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _host(url: SplitResult) -> str:
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    return f"{host}:{url.port}" if url.port else host


#: The facts that are sent unchanged.
_TYPES = {RunStatus.SUCCEEDED: "run.succeeded", RunStatus.SKIPPED: "run.skipped"}
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
        "type": _TYPES.get(facts["status"], "run.failed"),
        "timestamp": instants["finished_at"],
        "data": {name: facts[name] for name in _DATA}
        | {"result": result_value(facts["result"])}
        | instants
        | link,
    }
