"""Who holds which key, and which keys follow from it.

    master secret (schedulers, consoles)
      └─ app key (its executors; `warren secrets app NAME`)      app_key
           └─ key of one direction and one executor              Sealer
      └─ key of an app's webhooks (their receivers; `warren secrets webhook NAME`)

A process may hold two master secrets, or two keys of an app, at a time. It then signs with both and
accepts what is signed with either. So keys can be changed one process at a time, in any order,
without an interruption.
"""

import base64
import hmac
from typing import Protocol

from broker.topology import check_app

#: The app of messages that schedulers send to themselves.
NO_APP = ""
_SALT = b"warren"
#: HKDF's number of the first block; a key is one block of SHA-256, so there is no second.
_FIRST = b"\x01"


class Keys(Protocol):
    """What a process may sign with and open."""

    def of(self, app: str) -> tuple[bytes, ...]:
        """Return the keys of an app, or of NO_APP; none if this process has no business with it."""


class ClusterKeys:
    """The keys of all apps, derived from the master secret, or from two of them."""

    def __init__(self, secret: str, previous: str | None = None) -> None:
        self._secrets = (secret, previous) if previous else (secret,)

    def of(self, app: str) -> tuple[bytes, ...]:
        """Return the keys of an app, or of NO_APP."""
        return tuple(_of_app(secret, app).encode() for secret in self._secrets)

    def of_webhooks(self, app: str) -> tuple[bytes, ...]:
        """Return the keys that an app's webhooks are signed with."""
        return tuple(_of_webhooks(secret, app) for secret in self._secrets)


class AppKeys:
    """The key of one app, or two of them; it opens and signs nothing else."""

    def __init__(self, app: str, key: str, previous: str | None = None) -> None:
        self._app = check_app(app)
        self._keys = tuple(one.encode() for one in (key, previous) if one)

    @classmethod
    def derived(cls, app: str, secret: str, previous: str | None = None) -> "AppKeys":
        """Return an app's keys, derived from one master secret or two, which are not kept."""
        return cls(app, app_key(secret, app), app_key(previous, app) if previous else None)

    def of(self, app: str) -> tuple[bytes, ...]:
        """Return the keys when `app` is the one."""
        return self._keys if app == self._app else ()


def app_key(secret: str, app: str) -> str:
    """Return an app's key, 64 hexadecimal digits, from which the secret cannot be found.

    Raises:
        ValueError: `app` is no app's name.

    """
    return _of_app(secret, check_app(app))


def webhook_secret(secret: str, app: str) -> str:
    """Return what receivers of an app's webhooks check signatures with, in Standard Webhooks' form.

    Raises:
        ValueError: `app` is no app's name.

    """
    return f"whsec_{base64.b64encode(_of_webhooks(secret, check_app(app))).decode()}"


def derived_key(key: bytes, info: str) -> bytes:
    """Return the key for one use of another, by HKDF-SHA256 (RFC 5869): extract, then expand."""
    text = info.encode(errors="surrogatepass")  # input from strangers must not raise here
    return hmac.digest(hmac.digest(_SALT, key, "sha256"), text + _FIRST, "sha256")


def _of_app(secret: str, app: str) -> str:
    return derived_key(secret.encode(), f"app/{app}").hex()


def _of_webhooks(secret: str, app: str) -> bytes:
    return derived_key(secret.encode(), f"webhook/{app}")
