"""Makes forms that trigger runs idempotent: browsers may send them twice."""

import hashlib
import re
import secrets

from flask import request

from warren.sql.accounts.idempotency import IdempotentRequest

FIELD = "once"
_KEY = re.compile(r"[\w-]{16,64}")


def fresh_key() -> str:
    """Return a new random key for a form."""
    return secrets.token_urlsafe(16)


def sent_once(user_id: int) -> IdempotentRequest | None:
    """Return the idempotency key and content of the submitted form; None without a valid key."""
    key = request.form.get(FIELD, "")
    if not _KEY.fullmatch(key):
        return None
    fields = sorted(
        (name, value)
        for name, value in request.form.items(multi=True)
        if name not in (FIELD, "csrf_token")
    )
    asked = repr((request.path, fields)).encode("utf-8", "replace")
    # The prefix separates it from the keys of the user's API calls.
    return IdempotentRequest(
        user_id=user_id, key=f"form:{key}", body_hash=hashlib.sha256(asked).hexdigest()
    )
