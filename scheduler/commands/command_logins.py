"""Logins of the command line: how a command gets a token of the user in front of it.

    ask ──> [claim] ──> allow ──> give          refuse ends it

The command asks, and keeps a verifier of which it tells the hash only. A user who is signed in to
the console allows it: on the page that the command has opened in the browser, or after typing the
code that the command shows. In the first case the browser takes a code back to the command, so a
link to that page gives nothing to whoever has sent it. The command then gets a new token for its
verifier, once.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.resources.accounts import LoginProof, LoginWish
from warren.resources.operation import Scope
from warren.scheduler.actor import Actor
from warren.scheduler.commands.account_commands import RIGHTS, TokenCommands, TokenSpec
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.token_text import new_token
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import sign_ins, tokens
from warren.sql.accounts.users import rights_of
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS
from warren.sql.models import CommandLogin, User

#: How long a user has to decide, and the command to fetch its token.
LIFE_SECONDS = 600
#: How many logins a network may ask for in a burst, and milliseconds until the next one.
ASK_LIMIT = (20, 10_000)
#: The same for the codes that a user types.
CODE_LIMIT = (10, 30_000)
#: Codes have no vowels, which could spell words, and nothing that looks like another letter: with
#: eight of these there are 25,000 million.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_HALF = 4
_NO_LETTERS = re.compile(r"[^A-Z]")


@dataclass(frozen=True, slots=True)
class Asked:
    """A login that waits for a user; `key` is the code to type, or that of the link."""

    key: str


@dataclass(frozen=True, slots=True)
class TooManyLogins:
    """Nothing was done; try again in `seconds`."""

    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A login as its user sees it before the decision."""

    key: str
    machine: str
    address: str
    days: int
    has_code: bool
    #: Where the browser goes after the decision; empty if the command waits for no browser.
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The token that a command gets."""

    token: str
    name: str
    owner: str
    until_ms: int


class Waiting:
    """The user has not decided."""


class Refused:
    """The user has refused, or may no longer sign in."""


class Gone:
    """There is no such login, or its time is up, or its token was given already."""


class CommandLogins:
    """Asks, decides and gives, for whichever process the command or the user has reached."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    def ask(self, wish: LoginWish, *, origin: str, network: str) -> Asked | TooManyLogins:
        """Store a command's wish for a token."""
        now_ms = self._now_ms()
        key = secrets.token_urlsafe(24) if wish.port else _code()

        def unit(session: Session) -> int:
            limits = {f"login:{network}": ASK_LIMIT}
            wait_ms = sign_ins.charge(session, limits, now_ms=now_ms)
            if not wait_ms:
                # A request whose answer was lost comes again.
                tokens.forget_wish(session, wish.challenge)
                login = CommandLogin(
                    key_hash=_hash(key),
                    challenge=wish.challenge,
                    machine=wish.machine,
                    address=origin[:64],
                    days=wish.days,
                    port=wish.port,
                    state=wish.state if wish.port else "",
                    until_at=now_ms + LIFE_SECONDS * 1000,
                )
                tokens.add_wish(session, login)
            return wait_ms

        wait_ms = self._database.write(unit)
        if wait_ms:
            return TooManyLogins(-(-wait_ms // 1000))
        return Asked(key)

    def find(self, key: str) -> Shown | None:
        """Return the login of a link; None if there is none, or it was decided already.

        A code is never found so: who follows a link with a code in it has not read the code.
        """
        now_ms = self._now_ms()
        login = self._database.read(
            lambda session: tokens.find_wish(session, _hash(key), now_ms=now_ms)
        )
        return None if login is None or login.port is None else _shown(key, login)

    def claim(self, typed: str, user_id: int, *, network: str) -> Shown | TooManyLogins | None:
        """Return the login of a code that a user has typed, which is now that user's to decide."""
        key, now_ms = code_of(typed), self._now_ms()
        limits = {f"code:{user_id}": CODE_LIMIT, f"code:{network}": CODE_LIMIT}

        def unit(session: Session) -> Shown | TooManyLogins | None:
            wait_ms = sign_ins.charge(session, limits, now_ms=now_ms)
            if wait_ms:
                return TooManyLogins(-(-wait_ms // 1000))
            login = tokens.lock_wish(session, _hash(key), now_ms=now_ms)
            if login is None or login.port is not None or login.user_id not in (None, user_id):
                return None
            login.user_id = user_id
            return _shown(key, login)

        return self._database.write(unit)

    def allow(
        self, context: CommandContext, key: str, user_id: int, scopes: Collection[Scope]
    ) -> str:
        """Allow a login; return where the browser goes, empty if the command waits for none.

        Raises:
            Problem: it was decided already, or its time is up.

        """
        code = secrets.token_urlsafe(32)

        def unit(session: Session) -> str:
            login = self._mine(session, key, user_id)
            login.decision = tokens.ALLOWED
            login.scopes = ",".join(scope.value for scope in Scope if scope in scopes)
            login.user_id, login.generation = user_id, session.get_one(User, user_id).generation
            login.code_hash = _hash(code) if login.port else None
            self._note(context, session, Action.LOGIN_ALLOW, login)
            return _back(login, f"code={code}")

        return self._database.write(unit)

    def refuse(self, context: CommandContext, key: str, user_id: int) -> str:
        """Refuse a login; return where the browser goes, empty if the command waits for none.

        Raises:
            Problem: it was decided already, or its time is up.

        """

        def unit(session: Session) -> str:
            login = self._mine(session, key, user_id)
            login.decision, login.user_id = tokens.REFUSED, user_id
            self._note(context, session, Action.LOGIN_REFUSE, login)
            return _back(login, "error=refused")

        return self._database.write(unit)

    def give(self, proof: LoginProof, *, origin: str) -> Given | Waiting | Refused | Gone:
        """Return the token that was allowed, with its text, and forget the login."""
        now_ms = self._now_ms()
        challenge = challenge_of(proof.verifier)

        def unit(session: Session) -> Given | Waiting | Refused | Gone:
            login = tokens.lock_wish_by_challenge(session, challenge, now_ms=now_ms)
            if login is None:
                return Gone()
            if login.decision == tokens.WAITING:
                return Waiting()
            if login.code_hash and not hmac.compare_digest(login.code_hash, _hash(proof.code)):
                return Gone()
            given = self._token(session, login, origin, now_ms)
            tokens.remove_wish(session, login)
            return given

        return self._database.write(unit)

    def clean(self) -> None:
        """Delete logins whose time is up."""
        now_ms = self._now_ms()
        self._database.write(lambda session: tokens.clean_wishes(session, now_ms=now_ms))

    def _token(
        self, session: Session, login: CommandLogin, origin: str, now_ms: int
    ) -> Given | Refused:
        user = session.get(User, login.user_id)
        is_allowed = login.decision == tokens.ALLOWED
        if not is_allowed or user is None or user.is_disabled:
            return Refused()
        actor = Actor.of(user.name, rights_of(user), origin=origin)
        scopes = [scope for scope in _scopes(login) if actor.may(RIGHTS[scope])]
        # Since the decision, the password may have changed, or rights been taken away.
        if user.generation != login.generation or not scopes:
            return Refused()
        name = f"login-{login.machine[:24]}-{secrets.token_hex(4)}"
        spec = TokenSpec(name=name, owner_id=user.id, scopes=scopes, days=login.days)
        context = CommandContext(database=self._database, now_ms=self._now_ms, actor=actor)
        text = new_token()
        TokenCommands(context).add_in(session, spec, text)
        return Given(token=text, name=name, owner=user.name, until_ms=now_ms + login.days * DAY_MS)

    def _mine(self, session: Session, key: str, user_id: int) -> CommandLogin:
        """Return a login that a user may decide: that of a link, or of a code that they typed."""
        login = tokens.lock_wish(session, _hash(key), now_ms=self._now_ms())
        if login is None or (login.port is None and login.user_id != user_id):
            raise Problem(Code.NO_LOGIN)
        return login

    def _note(
        self, context: CommandContext, session: Session, action: Action, login: CommandLogin
    ) -> None:
        facts = {"address": login.address, "scopes": login.scopes, "days": login.days}
        context.note(session, action, login.machine, 0, self._now_ms(), after=facts)


def code_of(typed: str) -> str:
    """Return a code as it was shown, however it was typed."""
    letters = _NO_LETTERS.sub("", typed[:100].upper())
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


def challenge_of(verifier: str) -> str:
    """Return what a command tells of its verifier at first, as in RFC 7636."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(2 * _HALF))
    return f"{letters[:_HALF]}-{letters[_HALF:]}"


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _scopes(login: CommandLogin) -> list[Scope]:
    return [scope for scope in Scope if scope.value in login.scopes.split(",")]


def _shown(key: str, login: CommandLogin) -> Shown:
    return Shown(
        key=key,
        machine=login.machine,
        address=login.address,
        days=login.days,
        has_code=login.port is None,
        origin=_origin(login),
    )


def _origin(login: CommandLogin) -> str:
    return f"http://127.0.0.1:{login.port}" if login.port else ""


def _back(login: CommandLogin, query: str) -> str:
    return f"{_origin(login)}/?state={login.state}&{query}" if login.port else ""
