"""Seals messages and opens them: nobody without the secret can speak, nothing can be moved.

    key  = HKDF-SHA256(secret, info = version, direction, executor's address)
    mac  = HMAC-SHA256(key, type, cluster, routing key, expiry, address, body)

Each field is framed by its length, so no two lists of fields give the same bytes. The key names
direction and executor, so a message to A is none to B, and a question is no answer. What is not
rightly signed is never parsed.
"""

import hmac
import struct
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from broker.codec import BODY_LIMIT, VERSION, decode, encode
from broker.errors import Expired, Foreign, Forged, Malformed
from broker.messages import Canary, Heartbeat, Message
from broker.transport import Delivery, Outgoing

#: Keys kept derived; an executor more than that costs some 20 µs a message.
KEY_CACHE_SIZE = 4_096

_HEADERS = ("v", "type", "cluster", "expiry", "address", "mac")
_EXPIRY_DIGITS = 16


class Direction(StrEnum):
    """Which way a message goes; a scheduler's word to itself goes FROM_EXECUTOR, as its node."""

    TO_EXECUTOR = "to"
    FROM_EXECUTOR = "from"


class Sealer:
    """Signs what goes out and checks what comes in, for one process.

    `secret` is shared by the cluster. `cluster` is None or empty where it is not known yet (an
    executor before its first Welcome): then messages of any cluster are opened, and what is
    sealed carries no cluster. `clock` gives the epoch in milliseconds. Thread-safe.
    """

    def __init__(self, secret: str, cluster: str | None, clock: Callable[[], int]) -> None:
        self._secret = secret.encode()
        self._cluster = cluster or ""
        self._clock = clock
        self._key = lru_cache(maxsize=KEY_CACHE_SIZE)(self._derive)

    @property
    def cluster(self) -> str:
        """The cluster's id, empty while it is not known."""
        return self._cluster

    def pin(self, cluster: str) -> None:
        """From now on speak for, and listen to, this cluster only."""
        self._cluster = cluster

    def seal(
        self,
        message: Message,
        *,
        exchange: str,
        routing_key: str,
        address: str,
        direction: Direction,
        valid_seconds: float,
        durable: bool = True,
        ttl_seconds: float | None = None,
    ) -> Outgoing:
        """Return the message ready to publish, good for `valid_seconds` from now.

        `address` is the executor that it goes to or comes from.

        Raises:
            Malformed: the message is too large or holds text that is no Unicode.

        """
        body = encode(message)
        headers = {
            "v": VERSION,
            "type": type(message).__name__,
            "cluster": self._cluster,
            "expiry": str(self._clock() + round(valid_seconds * 1000)),
            "address": address,
        }
        headers["mac"] = self._mac(headers, direction, routing_key, body)
        return Outgoing(
            exchange=exchange,
            routing_key=routing_key,
            body=body,
            headers=headers,
            durable=durable,
            ttl_seconds=ttl_seconds,
        )

    def open(
        self, delivery: Delivery, *, expect: Any, direction: Direction, address: str | None = None
    ) -> Any:
        """Return the message, one of type `expect`, once all about it is proven.

        `address` is the executor that the message must be to or from; None accepts any sender,
        and then what the message says of its sender is what was proven.

        Raises:
            Malformed: headers missing, another version, too large, or not what was expected.
            Forged: not signed with the key of this direction and address, or for another place.
            Foreign: of another cluster, or of none though it is no Heartbeat.
            Expired: past its time; `message` on the error is the message.

        """
        headers = _read_headers(delivery)
        self._prove(headers, delivery, direction, address)
        self._check_cluster(headers)
        message: Message = decode(delivery.body, expect)
        if type(message).__name__ != headers["type"]:
            raise Malformed(f"expected type to be {headers['type']}, got: {type(message).__name__}")
        _check_sender(message, headers["address"])
        late_ms = self._clock() - int(headers["expiry"])
        if late_ms > 0:
            raise Expired(f"{headers['type']} expired {late_ms} ms ago", message)
        return message

    def _prove(
        self, headers: dict[str, str], delivery: Delivery, direction: Direction, address: str | None
    ) -> None:
        if address is not None and headers["address"] != address:
            raise Forged(f"expected address to be {address}, got: {headers['address'][:200]!r}")
        mac = self._mac(headers, direction, delivery.routing_key, delivery.body)
        if not hmac.compare_digest(mac.encode(), _bytes(headers["mac"])):
            raise Forged(
                f"{headers['type'][:50]!r} of {headers['address'][:200]!r}: wrong signature"
            )

    def _check_cluster(self, headers: dict[str, str]) -> None:
        theirs = headers["cluster"]
        if not self._cluster or theirs == self._cluster:
            return
        if theirs or headers["type"] != Heartbeat.__name__:
            raise Foreign(f"expected cluster to be {self._cluster}, got: {theirs[:200]!r}")

    def _mac(
        self, headers: dict[str, str], direction: Direction, routing_key: str, body: bytes
    ) -> str:
        texts = (headers["type"], headers["cluster"], routing_key)
        fields = [_bytes(text) for text in (*texts, headers["expiry"], headers["address"])]
        framed = struct.pack(f">{len(fields)}I", *map(len, fields)) + b"".join([*fields, body])
        return hmac.digest(self._key(direction, headers["address"]), framed, "sha256").hex()

    def _derive(self, direction: Direction, address: str) -> bytes:
        info = _bytes(f"{VERSION}/{direction}/{address}")
        return HKDF(algorithm=SHA256(), length=32, salt=b"warren", info=info).derive(self._secret)


def cluster_of(delivery: Delivery) -> str:
    """Return the cluster a message names; proven only once the message has been opened."""
    return delivery.headers.get("cluster", "")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # what a stranger sends must not raise here


def _read_headers(delivery: Delivery) -> dict[str, str]:
    headers = {}
    for name in _HEADERS:
        value = delivery.headers.get(name)
        if not isinstance(value, str):
            raise Malformed(f"expected header {name} to be text, got: {value!r}")
        headers[name] = value
    if headers["v"] != VERSION:
        raise Malformed(f"expected version to be {VERSION}, got: {headers['v'][:50]!r}")
    expiry = headers["expiry"]
    if not (expiry.isascii() and expiry.isdigit() and len(expiry) <= _EXPIRY_DIGITS):
        raise Malformed(f"expected expiry to be epoch milliseconds, got: {expiry[:50]!r}")
    if not 0 < len(delivery.body) <= BODY_LIMIT:
        raise Malformed(f"expected body to be 1 to {BODY_LIMIT} bytes, got: {len(delivery.body)}")
    return headers


def _check_sender(message: Message, address: str) -> None:
    """See to it that nobody speaks in another's name: the key proves `address` only."""
    claimed = message.node if isinstance(message, Canary) else getattr(message, "address", address)
    if claimed != address:
        raise Forged(f"expected sender to be {address[:200]!r}, got: {claimed!r}")
