"""Lets a form that triggers a run be sent twice and count once: its answer may have been lost."""

import hashlib
import re
import secrets

from flask import request

from sql.accounts.idempotency import IdempotentRequest

FIELD = "once"
_KEY = re.compile(r"[\w-]{16,64}")


def fresh_key() -> str:
    """Return the key of a form that is being shown."""
    return secrets.token_urlsafe(16)


def sent_once(user_id: int) -> IdempotentRequest | None:
    """Return what the present form says of itself, None when it says nothing that can be read."""
    key = request.form.get(FIELD, "")
    if not _KEY.fullmatch(key):
        return None
    fields = sorted(
        (name, value)
        for name, value in request.form.items(multi=True)
        if name not in (FIELD, "csrf_token")
    )
    asked = repr((request.path, fields)).encode("utf-8", "replace")
    # The name keeps it apart from the keys of the user's programs.
    return IdempotentRequest(
        user_id=user_id, key=f"form:{key}", body_hash=hashlib.sha256(asked).hexdigest()
    )
