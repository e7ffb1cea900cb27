"""Passwords: which ones are accepted, and how they are kept."""

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST, LONGEST = 8, 200

#: Argon2id as in the password storage cheat sheet of OWASP: 19 MiB, 2 passes, 1 lane; about 25 ms.
#: Each hash holds 16 random bytes of salt and these figures, so they may grow later.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def check_password(password: str, user_name: str) -> None:
    """Raise ValueError, which never holds the password, unless a user may have it."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(
            f"expected the password to have {SHORTEST} to {LONGEST} characters, "
            f"it has {len(password)}"
        )
    if password.casefold() == user_name.casefold():
        raise ValueError("expected the password not to be the user's name")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise ValueError("expected the password to be UTF-8") from None


def hash_password(password: str) -> str:
    """Return what is kept of a password."""
    return _HASHER.hash(password)


def is_password(password_hash: str, password: str) -> bool:
    """Return whether a password is the one that was kept; takes as long for a wrong one."""
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False
