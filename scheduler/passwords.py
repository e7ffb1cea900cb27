"""Passwords: which ones are accepted, and how they are kept."""

from enum import StrEnum
from functools import cache
from importlib import resources

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST, LONGEST = 8, 200

#: Argon2id as in the password storage cheat sheet of OWASP: 19 MiB, 2 passes, 1 lane; about 25 ms.
#: Each hash holds 16 random bytes of salt and these figures, so they may grow later.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


class Flaw(StrEnum):
    """Why a password is not accepted; the value is the complaint, which never holds it."""

    LENGTH = f"expected the password to have {SHORTEST} to {LONGEST} characters"
    NAME = "expected the password not to be the user's name"
    COMMON = "expected the password not to be a common one, which is guessed first"
    ENCODING = "expected the password to be UTF-8"


def flaw_of(password: str, user_name: str) -> Flaw | None:
    """Return why a user may not have a password, None when they may.

    Any characters are good, and none is asked for: that is what NIST SP 800-63B and OWASP's
    ASVS 6.2 advise, together with a list of common passwords.
    """
    if not SHORTEST <= len(password) <= LONGEST:
        return Flaw.LENGTH
    if password.casefold() == user_name.casefold():
        return Flaw.NAME
    if password.casefold() in common_passwords():
        return Flaw.COMMON
    try:
        password.encode()
    except UnicodeEncodeError:
        return Flaw.ENCODING
    return None


def check_password(password: str, user_name: str) -> None:
    """Raise ValueError, which never holds the password, unless a user may have it."""
    flaw = flaw_of(password, user_name)
    if flaw is Flaw.LENGTH:
        raise ValueError(f"{flaw}, it has {len(password)}")
    if flaw is not None:
        raise ValueError(flaw)


def hash_password(password: str) -> str:
    """Return what is kept of a password."""
    return _HASHER.hash(password)


def is_password(password_hash: str, password: str) -> bool:
    """Return whether a password is the one that was kept; takes as long for a wrong one."""
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def common_passwords() -> frozenset[str]:
    """Return the 8,000 passwords of a fitting length that are used most, in lower case."""
    text = resources.files("scheduler").joinpath("common_passwords.txt").read_text("utf-8")
    _origin, _, words = text.partition("\n\n")
    return frozenset(words.split("\n")) - {""}
