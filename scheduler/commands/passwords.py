"""Which passwords are accepted, and how they are stored."""

import secrets
from functools import cache
from importlib import resources

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from scheduler.problems import Code, Problem

SHORTEST, LONGEST = 8, 200

#: Argon2id as in the password storage cheat sheet of OWASP: 19 MiB, 2 passes, 1 lane; about 25 ms.
#: Each hash holds 16 random bytes of salt and these figures, so they may grow later.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def password_problem(password: str, user_name: str) -> Code | None:
    """Return why a user may not have a password, None when they may.

    Any characters are good, and none is asked for: that is what NIST SP 800-63B and OWASP's
    ASVS 6.2 advise, together with a list of common passwords.
    """
    if not SHORTEST <= len(password) <= LONGEST:
        return Code.WEAK_LENGTH
    if password.casefold() == user_name.casefold():
        return Code.WEAK_NAME
    if password.casefold() in common_passwords():
        return Code.WEAK_COMMON
    try:
        password.encode()
    except UnicodeEncodeError:
        return Code.WEAK_ENCODING
    return None


def check_password(password: str, user_name: str) -> None:
    """Raise Problem, which never holds the password, unless a user may have it."""
    flaw = password_problem(password, user_name)
    if flaw is not None:
        raise Problem(flaw, "password", least=SHORTEST, most=LONGEST, got=len(password))


def hash_password(password: str) -> str:
    """Return what is kept of a password."""
    return _HASHER.hash(password)


@cache
def dummy_hash() -> str:
    """Return the hash of a password that nobody has, for names that nobody has."""
    return hash_password(secrets.token_urlsafe())


def is_password(password_hash: str, password: str) -> bool:
    """Return whether a password is the one that was kept; takes as long for a wrong one."""
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def common_passwords() -> frozenset[str]:
    """Return the 8,000 passwords of a fitting length that are used most, in lower case."""
    text = resources.files("scheduler.commands").joinpath("common_passwords.txt").read_text("utf-8")
    _origin, _, words = text.partition("\n\n")
    return frozenset(words.split("\n")) - {""}
