"""Signatures computed from what the format says, without the code that signs."""

import hmac
from collections.abc import Mapping

from warren.broker.codec import VERSION
from warren.broker.signing import ClusterKeys, Direction, derived_key


def signature(
    headers: Mapping[str, str], direction: Direction, routing_key: str, body: bytes, *, secret: str
) -> str:
    """Return the signature of a message by the key that a master secret gives."""
    [app_key] = ClusterKeys(secret).of(headers["app"])
    key = derived_key(app_key, f"{VERSION}/{direction}/{headers['address']}")
    order = (headers["type"], headers["cluster"], routing_key, headers["expiry"])
    texts = [text.encode() for text in (*order, headers["app"], headers["address"])]
    lengths = b"".join(len(text).to_bytes(4, "big") for text in texts)
    return hmac.digest(key, lengths + b"".join(texts) + body, "sha256").hex()
