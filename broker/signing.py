"""Signs and verifies messages, and derives the keys for that: without them none can be forged.

    master secret (schedulers, consoles)
      └─ app key (its executors; `warren secrets app NAME`)      app_key
           └─ key of one direction and one executor              Sealer
      ├─ fingerprint: do two processes have the same secret?
      ├─ proof of an epoch of the database, which executors repeat
      └─ key of an app's webhooks (their receivers; `warren secrets webhook NAME`)

A process may hold two master secrets, or two keys of an app. It then signs with both and accepts
signatures by either, so keys can be changed one process at a time, in any order, without downtime.

    key  = HKDF-SHA256(app's key, info = version, direction, executor's address)
    mac  = HMAC-SHA256(key, type, cluster, routing key, expiry, app, address, body)

Each field is framed by its length, so no two lists of fields give the same bytes. The key names
app, direction and executor, so a message to A is invalid at B, and a question is no answer. A
process with two keys of an app signs with both. A message without a valid signature is never
parsed.
"""

import base64
import hmac
import struct
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

from warren.broker.codec import BODY_LIMIT, HEADER_LIMIT, VERSION, decode, encode
from warren.broker.errors import Expired, Foreign, Forged, Malformed, Oversized
from warren.broker.messages import Canary, Heartbeat, Message, wire_type
from warren.broker.topology import check_app
from warren.broker.transport import Delivery, Outgoing

#: The app in messages that schedulers send to themselves.
NO_APP = ""
_SALT = b"warren"
#: HKDF's block counter; a key is one block of SHA-256, so the first is enough.
_BLOCK_1 = b"\x01"
#: How many derived keys are kept; with more executors than that, a message costs some 20 µs more.
KEY_CACHE_SIZE = 4_096
_HEADERS = ("type", "cluster", "expiry", "app", "address", "mac")
_EXPIRY_DIGITS = 16
#: The most signatures that one message may have.
_MAX_SIGNATURES = 2
#: What an error says about the sender of a message of another version; 1 was never released.
_OLD_VERSION = "an older Warren with another signature scheme: upgrade that process"
_NEW_VERSION = "a newer Warren: upgrade this process"


class Keys(Protocol):
    """The keys that a process may sign and verify with."""

    def of(self, app: str) -> tuple[bytes, ...]:
        """Return the keys of an app, or of NO_APP; empty if this process does not have them."""


class ClusterKeys:
    """The keys of all apps, derived from one or two master secrets."""

    def __init__(self, secret: str, previous: str | None = None) -> None:
        self._secrets = (secret, previous) if previous else (secret,)

    def of(self, app: str) -> tuple[bytes, ...]:
        """Return the keys of an app, or of NO_APP."""
        return tuple(_of_app(secret, app).encode() for secret in self._secrets)

    def fingerprints(self, cluster_id: str) -> tuple[str, ...]:
        """Return a fingerprint of each secret, equal in all processes of a cluster that hold it.

        Each has 64 hexadecimal digits and reveals nothing else about the secret.
        """
        info = f"fingerprint/{cluster_id}"
        return tuple(derived_key(secret.encode(), info).hex() for secret in self._secrets)

    def epoch_proofs(self, cluster_id: str, epoch: int) -> tuple[str, ...]:
        """Return a proof by each secret that a scheduler has told this epoch of the database.

        Executors have none of the secrets, so they can repeat an epoch and make up none.
        """
        info = f"epoch/{cluster_id}/{epoch}"
        return tuple(derived_key(secret.encode(), info).hex() for secret in self._secrets)

    def of_webhooks(self, app: str) -> tuple[bytes, ...]:
        return tuple(_of_webhooks(secret, app) for secret in self._secrets)


class AppKeys:
    """One or two keys of a single app."""

    def __init__(self, app: str, key: str, previous: str | None = None) -> None:
        self._app = check_app(app)
        self._keys = tuple(text.encode() for text in (key, previous) if text)

    @classmethod
    def derived(cls, app: str, secret: str, previous: str | None = None) -> "AppKeys":
        """Return an app's keys, derived from one or two master secrets, which are not kept."""
        return cls(app, app_key(secret, app), app_key(previous, app) if previous else None)

    def of(self, app: str) -> tuple[bytes, ...]:
        """Return the keys if `app` is this app."""
        return self._keys if app == self._app else ()


def app_key(secret: str, app: str) -> str:
    """Return an app's key, 64 hexadecimal digits; the secret cannot be computed from it.

    Raises:
        ValueError: `app` is not a valid app name.

    """
    return _of_app(secret, check_app(app))


def webhook_secret(secret: str, app: str) -> str:
    """Return the key to verify an app's webhooks, in the format of Standard Webhooks.

    Raises:
        ValueError: `app` is not a valid app name.

    """
    return f"whsec_{base64.b64encode(_of_webhooks(secret, check_app(app))).decode()}"


def derived_key(key: bytes, info: str) -> bytes:
    """Return a key for one purpose, derived by HKDF-SHA256 (RFC 5869)."""
    text = info.encode(errors="surrogatepass")  # untrusted input must not raise here
    return hmac.digest(hmac.digest(_SALT, key, "sha256"), text + _BLOCK_1, "sha256")


def _of_app(secret: str, app: str) -> str:
    return derived_key(secret.encode(), f"app/{app}").hex()


def _of_webhooks(secret: str, app: str) -> bytes:
    return derived_key(secret.encode(), f"webhook/{app}")


class Direction(StrEnum):
    """Which way a message goes; a scheduler's message to itself is FROM_EXECUTOR, from its node."""

    TO_EXECUTOR = "to"
    FROM_EXECUTOR = "from"


class Sealer:
    """Signs what one process sends, and checks what it receives.

    `keys` are those of the apps whose messages it may sign and open. `cluster` is None or empty if
    it is not known yet (an executor before its first Welcome): then messages of any cluster are
    opened, and what is sealed carries no cluster. `clock` gives the epoch in milliseconds.
    Thread-safe.
    """

    def __init__(self, keys: Keys, cluster: str | None, clock: Callable[[], int]) -> None:
        self._keys = keys
        self._cluster = cluster or ""
        self._clock = clock
        self._keys_of = lru_cache(maxsize=KEY_CACHE_SIZE)(self._derive)

    @property
    def cluster(self) -> str:
        """The cluster's id, empty while it is not known."""
        return self._cluster

    def pin(self, cluster: str) -> None:
        """From now on seal messages for this cluster, and open only its messages."""
        self._cluster = cluster

    def seal(
        self,
        message: Message,
        *,
        exchange: str,
        routing_key: str,
        app: str,
        address: str,
        direction: Direction,
        valid_seconds: float,
        durable: bool = True,
        ttl_seconds: float | None = None,
    ) -> Outgoing:
        """Return the message ready to publish, good for `valid_seconds` from now.

        `app` and `address` are those of the executor that it goes to or comes from; the app of a
        scheduler's message to itself is NO_APP.

        Raises:
            ValueError: this process has no key of this app.
            Malformed: the message is too large, or contains text that is not Unicode.

        """
        body = encode(message)
        headers = {
            "v": VERSION,
            "type": wire_type(type(message)),
            "cluster": self._cluster,
            "expiry": str(self._clock() + round(valid_seconds * 1000)),
            "app": app,
            "address": address,
        }
        macs = self._macs(headers, direction, routing_key, body)
        if not macs:
            raise ValueError(f"expected app to be one whose key is held here, got: {app!r}")
        headers["mac"] = ",".join(macs)
        return Outgoing(
            exchange=exchange,
            routing_key=routing_key,
            body=body,
            headers=headers,
            durable=durable,
            ttl_seconds=ttl_seconds,
        )

    def open(
        self,
        delivery: Delivery,
        *,
        expect: Any,
        direction: Direction,
        app: str | None = None,
        address: str | None = None,
    ) -> Any:
        """Return the message, of type `expect`, once everything about it is verified.

        `app` and `address` are those of the executor that the message must be to or from; None
        accepts any, and then the sender that the message names is verified too. For messages that
        do not name their app, `app_of` returns it.

        Raises:
            Oversized: larger than any message; it is to be dropped, not dead-lettered.
            Malformed: headers missing, another version, or not what was expected.
            Forged: not signed with a key of this app, direction and address, or for another place.
            Foreign: of another cluster, or of none although it is not a Heartbeat.
            Expired: past its time; `message` on the error is the message.

        """
        headers = _read_headers(delivery)
        for name, expected in (("app", app), ("address", address)):
            if expected is not None and headers[name] != expected:
                raise Forged(f"expected {name} to be {expected}, got: {headers[name][:200]!r}")
        self._prove(headers, delivery, direction)
        self._check_cluster(headers)
        message: Message = decode(delivery.body, expect)
        if (got := wire_type(type(message))) != headers["type"]:
            raise Malformed(f"expected type to be {headers['type']}, got: {got}")
        _check_sender(message, headers["app"], headers["address"])
        late_ms = self._clock() - int(headers["expiry"])
        if late_ms > 0:
            raise Expired(f"{headers['type']} expired {late_ms} ms ago", message)
        return message

    def _prove(self, headers: dict[str, str], delivery: Delivery, direction: Direction) -> None:
        valid = self._macs(headers, direction, delivery.routing_key, delivery.body)
        given = headers["mac"].split(",", _MAX_SIGNATURES)[:_MAX_SIGNATURES]
        if not any(hmac.compare_digest(a.encode(), _bytes(b)) for a in valid for b in given):
            raise Forged(
                f"{headers['type'][:50]!r} of {headers['address'][:200]!r}, "
                f"app {headers['app'][:100]!r}: wrong signature"
            )

    def _check_cluster(self, headers: dict[str, str]) -> None:
        cluster = headers["cluster"]
        if not self._cluster or cluster == self._cluster:
            return
        if cluster or headers["type"] != wire_type(Heartbeat):
            raise Foreign(f"expected cluster to be {self._cluster}, got: {cluster[:200]!r}")

    def _macs(
        self, headers: dict[str, str], direction: Direction, routing_key: str, body: bytes
    ) -> list[str]:
        """Return a signature by each key of the message's app that this process has."""
        texts = (headers["type"], headers["cluster"], routing_key, headers["expiry"])
        fields = [_bytes(text) for text in (*texts, headers["app"], headers["address"])]
        framed = struct.pack(f">{len(fields)}I", *map(len, fields)) + b"".join([*fields, body])
        keys = self._keys_of(direction, headers["app"], headers["address"])
        return [hmac.digest(key, framed, "sha256").hex() for key in keys]

    def _derive(self, direction: Direction, app: str, address: str) -> tuple[bytes, ...]:
        info = f"{VERSION}/{direction}/{address}"
        return tuple(derived_key(key, info) for key in self._keys.of(app))


def cluster_of(delivery: Delivery) -> str:
    """Return the cluster a message names; proven only once the message has been opened."""
    return delivery.headers.get("cluster", "")


def app_of(delivery: Delivery) -> str:
    """Return the app a message names; proven only once the message has been opened."""
    return delivery.headers.get("app", "")


def address_of(delivery: Delivery) -> str:
    """Return the address a message names; proven only once the message has been opened."""
    return delivery.headers.get("address", "")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # input from strangers must not raise here


def _read_headers(delivery: Delivery) -> dict[str, str]:
    headers = {}
    _check_size(delivery)  # first: an oversized message is not kept, whatever else is wrong with it
    _check_version(delivery.headers.get("v"))
    for name in _HEADERS:
        value = delivery.headers.get(name)
        if not isinstance(value, str):
            raise Malformed(f"expected header {name} to be text, got: {value!r}")
        headers[name] = value
    expiry = headers["expiry"]
    if not (expiry.isascii() and expiry.isdigit() and len(expiry) <= _EXPIRY_DIGITS):
        raise Malformed(f"expected expiry to be epoch milliseconds, got: {expiry[:50]!r}")
    if not delivery.body:
        raise Malformed("expected body to have at least one byte")
    return headers


def _check_size(delivery: Delivery) -> None:
    if len(delivery.body) > BODY_LIMIT:
        raise Oversized(f"expected body to be up to {BODY_LIMIT} bytes, got: {len(delivery.body)}")
    # The limit of the dead-letter queue counts bodies only.
    if delivery.header_bytes > HEADER_LIMIT:
        raise Oversized(
            f"expected headers to be up to {HEADER_LIMIT} bytes, got: {delivery.header_bytes}"
        )


def _check_version(version: object) -> None:
    if version != VERSION:
        text = f"expected version in header v to be {VERSION}, got: {str(version)[:50]!r}"
        if isinstance(version, str) and version.isdecimal() and version.isascii():
            is_newer = len(version) > len(VERSION) or version > VERSION
            text += f" ({_NEW_VERSION if is_newer else _OLD_VERSION})"
        raise Malformed(text)


def _check_sender(message: Message, app: str, address: str) -> None:
    """Check that the message names its real sender: the key proves app and address only."""
    is_own = isinstance(message, Canary)
    claimed = message.node if isinstance(message, Canary) else getattr(message, "address", address)
    claimed_app = NO_APP if is_own else getattr(message, "app", app)
    if (claimed_app, claimed) != (app, address):
        sender = f"{claimed_app}/{claimed}"
        raise Forged(f"expected sender to be {app[:100]}/{address[:200]!r}, got: {sender!r}")
