"""Signing in and out: rows in the database, so that both count for every console at once."""

import hashlib
import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy.orm import Session

from admin_web.visitors import Visitor
from scheduler.commands.audit_log import Action, AuditLog
from scheduler.commands.passwords import dummy_hash, is_password
from sql.accounts import sessions, sign_in_attempts, users
from sql.engine import Database
from sql.models import User

#: A sign-in ends after so long without a click, and after so long altogether.
IDLE_SECONDS = 30 * 60
LONGEST_SECONDS = 12 * 3_600
#: How exactly the last click is known; each note is a write.
SEEN_SECONDS = 60
#: Wrong passwords that go at once, and how long each takes to be forgotten, in milliseconds.
ACCOUNT_LIMIT = (8, 60_000)
ADDRESS_LIMIT = (15, 20_000)
#: Forged cookies of one address that are written down at once, and how long until one more is.
FORGERY_LIMIT = (5, 60_000)
UNKNOWN = "(unknown user)"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The right password: the token that the cookie carries."""

    token: str


@dataclass(frozen=True, slots=True)
class SignInRefused:
    """A wrong name or password, or a disabled user; which of them is not told."""


@dataclass(frozen=True, slots=True)
class TooManyAttempts:
    """Too many attempts: nothing was looked at."""

    seconds: int


class SignIns:
    """Opens, finds and ends sign-ins; passwords are checked outside of transactions."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms
        # For unknown names, so that they take as long as known ones.
        self._nobody = dummy_hash()

    def open(
        self, name: str, password: str, *, origin: str, agent: str, instead_of: str = ""
    ) -> SignedIn | SignInRefused | TooManyAttempts:
        """Sign somebody in, if the password is right.

        `instead_of` is the token that the browser has had: its sign-in ends.
        """
        found = self.check(name, password, origin=origin)
        if not isinstance(found, User):
            return found

        def unit(session: Session) -> str | None:
            user = users.find(session, found.name)
            # The password was right a moment ago; by now it may be another, or the user disabled.
            if user.generation != found.generation:
                return None
            sessions.end_token(session, _hash(instead_of))
            self._note(session, Action.SESSION_OPEN, user, origin)
            return self._add(session, user, origin=origin, agent=agent)

        token = self._database.write(unit)
        return SignInRefused() if token is None else SignedIn(token)

    def check(
        self, name: str, password: str, *, origin: str
    ) -> User | SignInRefused | TooManyAttempts:
        """Return the user of a right password.

        The attempt is counted before the password is looked at, so that many at once gain nothing,
        and taken back when it was right.
        """
        limits = _limits(name, origin)
        wait_ms = self._database.write(
            lambda session: sign_in_attempts.charge(session, limits, now_ms=self._now_ms())
        )
        if wait_ms:
            log.warning("sign_in_limited", origin=origin)
            return TooManyAttempts(-(-wait_ms // 1000))
        user = self._database.read(lambda session: users.by_name(session, name))
        is_right = is_password(user.password if user else self._nobody, password)
        if user is None or user.is_disabled or not is_right:
            self._database.write(
                lambda session: self._note(session, Action.SESSION_REFUSE, user, origin)
            )
            return SignInRefused()
        self._database.write(lambda session: sign_in_attempts.refund(session, limits))
        return user

    def open_again(self, visitor: Visitor, *, agent: str) -> str:
        """Give a visitor whose password has just changed a new sign-in; return its token."""

        def unit(session: Session) -> str:
            user = users.find(session, visitor.name)
            return self._add(session, user, origin=visitor.actor.origin, agent=agent)

        return self._database.write(unit)

    def find(self, token: str, *, origin: str, is_click: bool) -> Visitor | None:
        """Return whose sign-in a token is, None when it has ended; a click keeps it alive."""
        token_hash, now_ms = _hash(token), self._now_ms()
        found = self._database.read(lambda session: sessions.find(session, token_hash))
        if found is None:
            return None
        sign_in, user = found
        idle_ms = now_ms - sign_in.seen_at
        if idle_ms > IDLE_SECONDS * 1000 or now_ms - sign_in.created_at > LONGEST_SECONDS * 1000:
            self._database.write(lambda session: sessions.end(session, user.id, sign_in.id))
            return None
        if is_click and idle_ms >= SEEN_SECONDS * 1000:
            self._database.write(lambda session: sessions.see(session, sign_in.id, now_ms=now_ms))
        return Visitor.of(sign_in, user, origin=origin)

    def end(self, visitor: Visitor, sign_in_id: int) -> None:
        """End one of a visitor's own sign-ins."""

        def unit(session: Session) -> None:
            sessions.end(session, visitor.user_id, sign_in_id)
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
        """Write down that somebody sent a cookie that no console signed, so often an address."""
        limits = {f"forgery:{network_of(origin)}": FORGERY_LIMIT}

        def unit(session: Session) -> None:
            if not sign_in_attempts.charge(session, limits, now_ms=self._now_ms()):
                self._note(session, Action.SESSION_FORGE, None, origin)

        log.warning("cookie_refused", origin=origin)
        self._database.write(unit)

    def clean(self) -> None:
        """Forget what has run out."""
        now_ms = self._now_ms()

        def unit(session: Session) -> None:
            sessions.clean(
                session,
                seen_before_ms=now_ms - IDLE_SECONDS * 1000,
                made_before_ms=now_ms - LONGEST_SECONDS * 1000,
            )
            sign_in_attempts.clean(session, now_ms=now_ms)

        self._database.write(unit)

    def _add(self, session: Session, user: User, *, origin: str, agent: str) -> str:
        token = secrets.token_urlsafe(32)
        sessions.add(session, user, _hash(token), now_ms=self._now_ms(), origin=origin, agent=agent)
        return token

    def _note(self, session: Session, action: Action, user: User | None, origin: str) -> None:
        # What was typed as a name may be a password, so only known names are kept.
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


def network_of(origin: str) -> str:
    """Return what one who tries has: an IPv4 address, or a /64 of IPv6."""
    try:
        address = ipaddress.ip_address(origin.partition("%")[0])
    except ValueError:
        return origin[:60]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
