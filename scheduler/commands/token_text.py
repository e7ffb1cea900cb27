"""The text of API tokens: unguessable, with a prefix and checksum for secret scanners."""

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
    body = secrets.token_urlsafe(_RANDOM_BYTES)
    return f"{PREFIX}{body}{_check(body)}"


def is_whole(text: str) -> bool:
    """Return whether a text has a token's form; the checksum may be wrong."""
    return _SHAPE.fullmatch(text) is not None


def is_token(text: str) -> bool:
    """Return whether a text has a token's form and a correct checksum."""
    if not is_whole(text):
        return False
    body = text[len(PREFIX) : -_CHECK_LENGTH]
    return _check(body) == text[-_CHECK_LENGTH:]


def hash_of(token: str) -> str:
    """Return the stored hash of a token; with 256 random bits, one fast hash is safe."""
    return hashlib.sha256(token.encode()).hexdigest()


def _check(body: str) -> str:
    """Return the CRC-32 of a text in base 62."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
