"""The scopes of API tokens; a token never allows more than its owner may do at that moment.

The text of API tokens: unguessable, with a prefix and checksum for secret scanners.
"""

import hashlib
import re
import secrets
import string
import zlib
from enum import StrEnum

from warren.scheduler.actor import Actor, Right
from warren.sql.accounts import tokens
from warren.sql.accounts.tokens import KnownToken, Owner
from warren.sql.accounts.users import rights_of
from warren.sql.models import ApiToken, User

PREFIX = "wrn_"
#: 256 random bits are 43 characters of base64url.
_RANDOM_BYTES = 32
_CHECK_LENGTH = 6
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}[A-Za-z0-9]{{{_CHECK_LENGTH}}}", re.ASCII)


def new_token() -> str:
    """Return a new random token."""
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


class Scope(StrEnum):
    """A part of the API that a token gives access to."""

    #: Read everything except logs and secrets.
    READ = "read"
    #: Read the output of runs.
    LOGS = "logs"
    #: Run jobs.
    TRIGGER = "trigger"
    #: Start and stop jobs, kill runs, drain executors, pause apps.
    OPERATE = "operate"
    #: Create, change and delete jobs.
    WRITE = "write"
    #: Change scripts too, and so run any program.
    SCRIPTS = "scripts"
    #: Apps, pausing everything, the audit log.
    ADMIN = "admin"


#: The right that each scope requires of the token's owner.
RIGHTS = {
    Scope.READ: Right.VIEW,
    Scope.LOGS: Right.VIEW,
    Scope.TRIGGER: Right.OPERATE,
    Scope.OPERATE: Right.OPERATE,
    Scope.WRITE: Right.OPERATE,
    Scope.SCRIPTS: Right.EDIT_GLUE,
    Scope.ADMIN: Right.ADMINISTER,
}
#: The scopes that a token limited to some jobs may have.
JOB_SCOPES = frozenset({Scope.READ, Scope.LOGS, Scope.TRIGGER, Scope.OPERATE})

#: The scopes that reach beyond single apps; a token limited to some apps cannot have them.
GLOBAL_SCOPES = frozenset({Scope.ADMIN})


_BY_WORD = {scope.value: scope for scope in Scope}


def scopes_of(token: ApiToken | KnownToken) -> frozenset[Scope]:
    """Return a token's scopes; words that this version does not know are ignored."""
    return frozenset(_BY_WORD[word] for word in token.scopes.split(",") if word in _BY_WORD)


def actor_of(token: ApiToken | KnownToken, owner: User | Owner, *, origin: str) -> Actor:
    """Return the actor of a token, with the rights that both the token and its owner have now."""
    held = Actor.of(owner.name, rights_of(owner), origin=origin)
    wanted = {RIGHTS[scope] for scope in scopes_of(token)}
    listed = tokens.ids_of(token.permission)
    app_ids = held.app_ids
    if listed is not None:
        wanted -= {RIGHTS[scope] for scope in GLOBAL_SCOPES}
        app_ids = listed if app_ids is None else app_ids & listed
    return Actor(
        who=f"token:{token.name}",
        origin=origin,
        rights=frozenset(wanted & set(held.rights)) | {Right.ANYONE},
        app_ids=app_ids,
        job_ids=tokens.ids_of(token.jobs),
    )
