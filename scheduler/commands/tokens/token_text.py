"""How a token looks: what nobody can guess, and what a scanner of leaked secrets finds."""

import hashlib
import re
import secrets
import string
import zlib

PREFIX = "wrn_"
#: 256 random bits are 43 characters of base64url.
_RANDOM_BYTES = 32
_CHECK_LENGTH = 6
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}[A-Za-z0-9]{{{_CHECK_LENGTH}}}", re.ASCII)


def new_token() -> str:
    """Return a token that nobody has."""
    body = secrets.token_urlsafe(_RANDOM_BYTES)
    return f"{PREFIX}{body}{_check(body)}"


def is_token(text: str) -> bool:
    """Return whether a text can be a token: one that was cut or mistyped cannot."""
    if not _SHAPE.fullmatch(text):
        return False
    body = text[len(PREFIX) : -_CHECK_LENGTH]
    return _check(body) == text[-_CHECK_LENGTH:]


def hash_of(token: str) -> str:
    """Return what is kept of a token. It has 256 random bits, so one quick hash will do."""
    return hashlib.sha256(token.encode()).hexdigest()


def _check(body: str) -> str:
    """Return the CRC-32 of a text in base 62."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
