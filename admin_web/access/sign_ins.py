"""Signing in and out.

Sign-ins are rows in the database, so they apply to every console at once. The cookie's name
includes the port, because one host may serve two consoles.
"""

import hashlib
import ipaddress
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from flask import Flask, request
from flask.sessions import SecureCookieSessionInterface
from sqlalchemy.orm import Session

from warren.admin_web.visitors import Visitor
from warren.scheduler.commands.command_context import Action, AuditLog
from warren.scheduler.commands.identity_commands import Disabled, Person, Reading, Unmatched, admit
from warren.scheduler.commands.passwords import dummy_hash, is_password
from warren.sql.accounts import sign_ins, users
from warren.sql.engine import Database
from warren.sql.models import User


class CookiePerPort(SecureCookieSessionInterface):
    """Keeps the sessions of two consoles on one host apart."""

    def get_cookie_name(self, app: Flask) -> str:
        """Return the configured name, with the port of the Host header if it has one."""
        name = super().get_cookie_name(app)
        try:
            port = urlsplit(f"//{request.host}").port
        except ValueError:
            return name
        return f"{name}-{port}" if port else name


#: A sign-in ends after this long without a click, and after this long in any case.
IDLE_SECONDS = 30 * 60
LONGEST_SECONDS = 12 * 3_600
#: How often the last click is recorded; each record is a write.
SEEN_SECONDS = 60
#: How many wrong passwords are allowed in a burst, and milliseconds until the next one.
ACCOUNT_LIMIT = (8, 60_000)
ADDRESS_LIMIT = (15, 20_000)
#: How many forged cookies of an address are recorded in a burst, and milliseconds until the next.
FORGERY_LIMIT = (5, 60_000)
UNKNOWN = "(unknown user)"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The password was right; the cookie carries `token`."""

    token: str


@dataclass(frozen=True, slots=True)
class SignInRefused:
    """A wrong name or password, or a disabled user; the visitor does not learn which."""


@dataclass(frozen=True, slots=True)
class TooManyAttempts:
    """Too many attempts: the password was not checked. Try again in `seconds`."""

    seconds: int


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """A person whom the provider knows may not sign in here: no rule matches, or disabled."""

    is_disabled: bool


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A session by single sign-on that has ended, because groups are no longer confirmed."""


class SignIns:
    """Opens, finds and ends sign-ins; passwords are checked outside of transactions.

    `local_names` are the only users who may sign in with a password; None = all who have one.
    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        local_names: Collection[str] | None = None,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._local_names = local_names
        # Checked for unknown names, which must take as long as known ones.
        self._nobody = dummy_hash()

    def open(
        self, name: str, password: str, *, origin: str, agent: str, instead_of: str = ""
    ) -> SignedIn | SignInRefused | TooManyAttempts:
        """Sign a user in if the password is right.

        `instead_of` is the browser's previous token; that sign-in ends.
        """
        result = self.check(name, password, origin=origin)
        if not isinstance(result, User):
            return result

        def unit(session: Session) -> str | None:
            user = users.find(session, result.name)
            # Since the check, the password may have changed or the user been disabled.
            if user.generation != result.generation:
                return None
            sign_ins.end_token(session, _hash(instead_of))
            self._audit(session, Action.SESSION_OPEN, user, origin)
            return self._add(session, user, origin=origin, agent=agent)

        token = self._database.write(unit)
        return SignInRefused() if token is None else SignedIn(token)

    def check(
        self, name: str, password: str, *, origin: str
    ) -> User | SignInRefused | TooManyAttempts:
        """Return the user if the password is right.

        The attempt is counted before the password is checked, so that many at once gain nothing,
        and is refunded if the password was right.
        """
        limits = _limits(name, origin)
        wait_ms = self._database.write(
            lambda session: sign_ins.charge(session, limits, now_ms=self._now_ms())
        )
        if wait_ms:
            log.warning("sign_in_limited", origin=origin)
            return TooManyAttempts(-(-wait_ms // 1000))
        user = self._database.read(lambda session: users.by_name(session, name))
        is_right = is_password(user.password if user else self._nobody, password)
        if user is None or user.is_disabled or not is_right or not self._is_local(user):
            self._database.write(
                lambda session: self._audit(session, Action.SESSION_REFUSE, user, origin)
            )
            return SignInRefused()
        self._database.write(lambda session: sign_ins.refund(session, limits))
        return user

    def open_for(
        self,
        person: Person,
        reading: Reading,
        *,
        id_token: str,
        origin: str,
        agent: str,
        instead_of: str = "",
    ) -> SignedIn | NotAdmitted:
        """Sign in a person who has proved to the provider who they are; see `open`.

        `id_token` is encrypted.
        """

        def unit(session: Session) -> SignedIn | NotAdmitted:
            user = admit(session, person, reading, origin=origin)
            if isinstance(user, Unmatched | Disabled):
                self._audit(session, Action.SESSION_REFUSE, user.user, origin)
                return NotAdmitted(isinstance(user, Disabled))
            sign_ins.end_token(session, _hash(instead_of))
            self._audit(session, Action.SESSION_OPEN, user, origin)
            return SignedIn(self._add(session, user, origin=origin, agent=agent, id_token=id_token))

        return self._database.write(unit)

    def count_return(self, origin: str) -> TooManyAttempts | None:
        """Count a return from the provider; return how long to wait if there were too many."""
        limits = _limits_of_returns(origin)
        wait_ms = self._database.write(
            lambda session: sign_ins.charge(session, limits, now_ms=self._now_ms())
        )
        if not wait_ms:
            return None
        log.warning("sign_in_limited", origin=origin)
        return TooManyAttempts(-(-wait_ms // 1000))

    def forget_return(self, origin: str) -> None:
        """Undo `count_return` after a good one."""
        limits = _limits_of_returns(origin)
        self._database.write(lambda session: sign_ins.refund(session, limits))

    def record_refusal(self, origin: str) -> None:
        """Record in the audit log that somebody's sign-in at the provider was refused."""
        self._database.write(
            lambda session: self._audit(session, Action.SESSION_REFUSE, None, origin)
        )

    def id_token(self, visitor: Visitor) -> str | None:
        """Return the encrypted ID token of a visitor's sign-in; None if it was by a password."""
        return self._database.read(lambda session: sign_ins.id_token(session, visitor.sign_in_id))

    def reopen(self, visitor: Visitor, generation: int, *, agent: str) -> str | None:
        """Sign a visitor in again after a change of password; return the new token.

        `generation` is what that change returned. Returns None if the user has changed since.
        """

        def unit(session: Session) -> str | None:
            user = users.find(session, visitor.name)
            if user.generation != generation:
                return None
            return self._add(session, user, origin=visitor.actor.origin, agent=agent)

        return self._database.write(unit)

    def find(self, token: str, *, origin: str, is_click: bool) -> Visitor | Lapsed | None:
        """Return the visitor of a token, or None or Lapsed if the sign-in has ended.

        A click keeps the sign-in alive.
        """
        token_hash, now_ms = _hash(token), self._now_ms()
        row = self._database.read(lambda session: sign_ins.find_session(session, token_hash))
        if row is None:
            return None
        sign_in, user = row
        idle_ms = now_ms - sign_in.seen_at
        if idle_ms > IDLE_SECONDS * 1000 or now_ms - sign_in.created_at > LONGEST_SECONDS * 1000:
            self._database.write(lambda session: sign_ins.end_session(session, user.id, sign_in.id))
            return None
        if sign_in.is_sso and (user.sso_until or 0) <= now_ms:
            self._database.write(lambda session: sign_ins.end_session(session, user.id, sign_in.id))
            return Lapsed()
        if is_click and idle_ms >= SEEN_SECONDS * 1000:
            self._database.write(
                lambda session: sign_ins.touch_session(session, sign_in.id, now_ms=now_ms)
            )
        return Visitor.of(sign_in, user, origin=origin)

    def end(self, visitor: Visitor, sign_in_id: int) -> None:
        """End one of a visitor's own sign-ins."""

        def unit(session: Session) -> None:
            sign_ins.end_session(session, visitor.user_id, sign_in_id)
            audit_log = AuditLog(who=visitor.name, origin=visitor.actor.origin)
            audit_log.note(
                session,
                Action.SESSION_END,
                visitor.name,
                object_id=visitor.user_id,
                now_ms=self._now_ms(),
            )

        self._database.write(unit)

    def record_forgery(self, origin: str) -> None:
        """Record in the audit log that an address sent a forged cookie, at a limited rate."""
        limits = {f"forgery:{network_of(origin)}": FORGERY_LIMIT}

        def unit(session: Session) -> None:
            if not sign_ins.charge(session, limits, now_ms=self._now_ms()):
                self._audit(session, Action.SESSION_FORGE, None, origin)

        log.warning("cookie_refused", origin=origin)
        self._database.write(unit)

    def clean(self) -> None:
        """Delete expired sign-ins and attempts."""
        now_ms = self._now_ms()

        def unit(session: Session) -> None:
            sign_ins.clean_sessions(
                session,
                seen_before_ms=now_ms - IDLE_SECONDS * 1000,
                made_before_ms=now_ms - LONGEST_SECONDS * 1000,
            )
            sign_ins.clean_attempts(session, now_ms=now_ms)

        self._database.write(unit)

    def _is_local(self, user: User) -> bool:
        """Return whether a user may sign in with a password at all."""
        is_named = self._local_names is None or user.name in self._local_names
        return is_named and user.sso_until is None

    def _add(
        self, session: Session, user: User, *, origin: str, agent: str, id_token: str | None = None
    ) -> str:
        token = secrets.token_urlsafe(32)
        sign_ins.add_session(
            session,
            user,
            _hash(token),
            now_ms=self._now_ms(),
            origin=origin,
            agent=agent,
            id_token=id_token,
        )
        return token

    def _audit(self, session: Session, action: Action, user: User | None, origin: str) -> None:
        # People type passwords into the name field, so only known names are stored.
        name = user.name if user else UNKNOWN
        AuditLog(who=name, origin=origin).note(
            session,
            action,
            name,
            object_id=user.id if user else 0,
            now_ms=self._now_ms(),
        )


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _limits(name: str, origin: str) -> dict[str, tuple[int, int]]:
    account = hashlib.sha256(name.casefold().encode(errors="replace")).hexdigest()[:32]
    return {f"account:{account}": ACCOUNT_LIMIT, f"address:{network_of(origin)}": ADDRESS_LIMIT}


def _limits_of_returns(origin: str) -> dict[str, tuple[int, int]]:
    return {f"sso:{network_of(origin)}": ADDRESS_LIMIT}


def network_of(origin: str) -> str:
    """Return the network that shares one limit: an IPv4 address, or a /64 of IPv6."""
    try:
        address = ipaddress.ip_address(origin.partition("%")[0])
    except ValueError:
        return origin[:60]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
