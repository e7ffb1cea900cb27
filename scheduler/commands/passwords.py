"""Checks and hashes passwords."""

import secrets
from functools import cache
from importlib import resources

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.users import NO_SIGN_IN

MIN_LENGTH, MAX_LENGTH = 8, 200

#: Argon2id with the parameters of OWASP's password storage cheat sheet: 19 MiB, 2 passes, 1 lane;
#: about 25 ms. Each hash contains its salt of 16 bytes and these parameters, so they can be raised.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def password_problem(password: str, user_name: str) -> Code | None:
    """Return why a user may not have this password; None if they may.

    All characters are allowed and none is required, but common passwords are refused, as NIST
    SP 800-63B and OWASP's ASVS 6.2 advise.
    """
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
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
    """Raise Problem unless a user may have this password; the problem never contains it."""
    flaw = password_problem(password, user_name)
    if flaw is not None:
        raise Problem(flaw, "password", least=MIN_LENGTH, most=MAX_LENGTH, got=len(password))


def hash_password(password: str) -> str:
    """Return the Argon2id hash of a password."""
    return _HASHER.hash(password)


def no_password() -> str:
    """Return what a program has instead of a password's hash; checking it takes equally long."""
    return NO_SIGN_IN + hash_password(secrets.token_urlsafe())


@cache
def dummy_hash() -> str:
    """Return the hash of a random password, to check passwords of unknown users against."""
    return hash_password(secrets.token_urlsafe())


def is_password(password_hash: str, password: str) -> bool:
    """Return whether a password matches a hash; a wrong one takes equally long."""
    try:
        is_right = _HASHER.verify(password_hash.removeprefix(NO_SIGN_IN), password)
    except (VerificationError, InvalidHashError):
        return False
    return is_right and not password_hash.startswith(NO_SIGN_IN)


@cache
def common_passwords() -> frozenset[str]:
    """Return the 8,000 most common passwords of an allowed length, in lower case."""
    text = (
        resources.files("warren.scheduler.commands")
        .joinpath("common_passwords.txt")
        .read_text("utf-8")
    )
    _origin, _, words = text.partition("\n\n")
    return frozenset(words.split("\n")) - {""}
