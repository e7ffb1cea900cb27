"""The keys: which process holds which, and how they are derived.

    master secret (schedulers, consoles)
      └─ app key (its executors; `warren secrets app NAME`)      app_key
           └─ key of one direction and one executor              Sealer
      ├─ fingerprint: do two processes have the same secret?
      └─ key of an app's webhooks (their receivers; `warren secrets webhook NAME`)

A process may hold two master secrets, or two keys of an app. It then signs with both and accepts
signatures by either, so keys can be changed one process at a time, in any order, without downtime.
"""

import base64
import hmac
from typing import Protocol

from warren.broker.topology import check_app

#: The app in messages that schedulers send to themselves.
NO_APP = ""
_SALT = b"warren"
#: HKDF's block counter; a key is one block of SHA-256, so the first is enough.
_BLOCK_1 = b"\x01"


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

    def of_webhooks(self, app: str) -> tuple[bytes, ...]:
        """Return the keys that sign an app's webhooks."""
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
