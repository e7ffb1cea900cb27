"""CSRF tokens of forms, masked anew for each answer, so that no two answers hold the same bytes."""

import base64
import binascii
import secrets

from flask import Flask, g
from flask_wtf.csrf import CSRFProtect, generate_csrf


class MaskedTokens(CSRFProtect):  # type: ignore[misc] # has no types
    """Checks CSRF tokens that were masked when they were sent."""

    def init_app(self, app: Flask) -> None:
        """Check every form, and give templates the token to put into theirs."""
        super().init_app(app)
        # Macros see globals only; in templates, the context processor of CSRFProtect would win.
        app.jinja_env.globals["csrf_token"] = masked_token
        app.context_processor(lambda: {"csrf_token": masked_token})

    def _get_csrf_token(self) -> str | None:
        """Return the unmasked token of this request."""
        sent = super()._get_csrf_token()
        return unmasked(sent) if sent else sent


def masked_token() -> str:
    """Return the masked token of this answer; all its forms share it."""
    if "masked_token" not in g:
        token = generate_csrf().encode()
        mask = secrets.token_bytes(len(token))
        g.masked_token = base64.urlsafe_b64encode(mask + _mixed(token, mask)).decode()
    return str(g.masked_token)


def unmasked(sent: str) -> str:
    """Return the token that was masked; empty if `sent` is not a masked token."""
    try:
        both = base64.urlsafe_b64decode(sent.encode())
        half = len(both) // 2
        return _mixed(both[half:], both[:half]).decode()
    except (binascii.Error, ValueError):
        return ""


def _mixed(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
