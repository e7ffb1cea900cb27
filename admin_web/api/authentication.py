"""Identifies the caller: a token, its owner, and how often and how much at once it may ask."""

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import structlog
from flask import request

from warren.admin_web.access.sign_ins import network_of
from warren.admin_web.api.endpoint import Call
from warren.admin_web.api.problem_answers import Refusal
from warren.admin_web.services import ApiServices
from warren.resources.operation import Endpoint, OpenAccess, Scope
from warren.scheduler.actor import Actor
from warren.scheduler.commands.account_commands import RIGHTS, actor_of, scopes_of
from warren.scheduler.commands.token_text import hash_of, is_token
from warren.sql.accounts import sign_ins, tokens
from warren.sql.accounts.tokens import KnownToken, Owner
from warren.sql.jobs import job_rows

#: The most keys that are remembered; the least recently used is dropped first.
KEPT = 10_000


class RateLimits:
    """A token bucket for each key; thread-safe.

    Args:
        rate: calls per second in the long run.
        burst: calls allowed at once; at least one is.
        clock: monotonic seconds.

    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._clock = clock
        self._lock = threading.Lock()
        #: How many calls each key has left, and when that was computed.
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, key: int) -> float:
        """Count one call and return 0, or return the seconds until the next one is allowed."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(key, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._rate)
            wait = 0.0 if left >= 1 else (1 - left) / self._rate
            self._left[key] = (left - 1 if not wait else left, now)
            while len(self._left) > KEPT:
                self._left.popitem(last=False)
        return wait


class ConcurrencyLimits:
    """A limit on concurrent uses, in total and for each key; thread-safe.

    Args:
        total: how many uses are allowed at a time, for all keys together.
        per_key: how many of them one key may have.

    """

    def __init__(self, total: int, per_key: int) -> None:
        self._total = total
        self._per_key = per_key
        self._lock = threading.Lock()
        self._taken: Counter[int] = Counter()

    @contextmanager
    def taken(self, key: int) -> Iterator[bool]:
        """Count one use while the block runs; yield False if the limit is reached."""
        is_taken = self.take(key)
        try:
            yield is_taken
        finally:
            if is_taken:
                self.give_back(key)

    def take(self, key: int) -> bool:
        """Count one use until `give_back`, or return False if the limit is reached."""
        with self._lock:
            if self._taken[key] >= self._per_key or self._taken.total() >= self._total:
                return False
            self._taken[key] += 1
            return True

    def give_back(self, key: int) -> None:
        """End one use that `take` counted."""
        with self._lock:
            self._taken[key] -= 1
            self._taken = +self._taken


#: How many unknown tokens one address may send in a burst, and milliseconds until the next one.
#: Separate from the limit on sign-ins to the console.
GUESS_LIMIT = (15, 20_000)
#: How precisely the last use of a token is recorded; each record is a write.
SEEN_MS = 60_000
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="warren"'}

log = structlog.get_logger()


class Authentication:
    """Identifies the caller and checks the scope, before anything else is read.

    With a `caller`, who is in the same process, no token is needed and nothing is limited.
    """

    def __init__(self, services: ApiServices, caller: Actor | None = None) -> None:
        self._services = services
        self._caller = caller
        limits = services.limits
        self._requests = RateLimits(limits.requests, limits.requests_at_once)
        self._triggers = RateLimits(limits.triggers, limits.triggers_at_once)

    def admit(self, endpoint: Endpoint) -> Call | None:
        """Return the call with its actor; None if the view is open to anyone.

        Raises:
            Refusal: 401 without a valid token, 429 over its rate limit, 403 without the scope.

        """
        if endpoint.access is OpenAccess.ANYONE:
            return None
        if self._caller is not None:
            return _trusted(self._caller)
        token, owner = self._known_token(request.headers.get("Authorization", ""))
        self._limit(token.id, endpoint)
        self._record_use(token)
        return self._call(token, owner, endpoint)

    def admit_again(self, endpoint: Endpoint) -> Call:
        """Return the call of a held request, with its owner's current rights; not counted again.

        Raises:
            Refusal: 401 without a token that is still valid, 403 without the scope.

        """
        return self._call(*self._known_token(request.headers.get("Authorization", "")), endpoint)

    def _call(self, token: KnownToken, owner: Owner, endpoint: Endpoint) -> Call:
        call = Call(
            actor=self._actor(token, owner),
            user_id=owner.id,
            token_name=token.name,
            owner=owner.name,
            scopes=scopes_of(token),
        )
        if isinstance(endpoint.access, Scope):
            require_scope(call, endpoint.access)
        if endpoint.needs_whole_apps and call.actor.job_ids is not None:
            raise Refusal(
                403, "this token is limited to some jobs, but this request is about whole apps"
            )
        return call

    def _actor(self, token: KnownToken, owner: Owner) -> Actor:
        """Return the actor; one with a token for some jobs sees only their apps."""
        actor = actor_of(token, owner, origin=request.remote_addr or "")
        if actor.job_ids is None:
            return actor
        job_ids = actor.job_ids
        app_ids = self._services.database.read_autocommit(
            lambda session: job_rows.app_ids(session, job_ids)
        )
        return replace(
            actor, app_ids=frozenset(known_id for known_id in app_ids if actor.knows(known_id))
        )

    def _known_token(self, header: str) -> tuple[KnownToken, Owner]:
        kind, _, text = header.partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text:
            raise Refusal(401, "expected the header `Authorization: Bearer …`", headers=_CHALLENGE)
        known = None
        if is_token(text):
            known = self._services.database.read_autocommit(
                lambda session: tokens.find(session, hash_of(text))
            )
        if known is None:
            self._charge()
            raise _unauthorized("unknown token")
        token, owner = known
        if owner.is_disabled:
            raise _unauthorized("the token's owner is disabled")
        if owner.tokens_until is not None and owner.tokens_until <= self._services.now_ms():
            raise _unauthorized(
                f"the groups of the token's owner are not confirmed: {owner.name} has to sign in "
                "at the console again, by single sign-on"
            )
        if token.revoked_at is not None:
            raise _unauthorized("the token was revoked")
        if token.expires_at <= self._services.now_ms():
            raise _unauthorized("the token has expired")
        return token, owner

    def _charge(self) -> None:
        """Count an unknown token from this address."""
        origin = request.remote_addr or ""
        limits = {f"token:{network_of(origin)}": GUESS_LIMIT}
        wait_ms = self._services.database.write(
            lambda session: sign_ins.charge(session, limits, now_ms=self._services.now_ms())
        )
        if wait_ms:
            log.warning("token_guesses_limited", origin=origin)
            raise too_many_requests("too many unknown tokens from this address", wait_ms / 1000)

    def _limit(self, token_id: int, endpoint: Endpoint) -> None:
        wait = self._requests.take(token_id)
        if not wait and endpoint.access is Scope.TRIGGER:
            wait = self._triggers.take(token_id)
        if wait:
            raise too_many_requests("this token calls too often", wait)

    def _record_use(self, token: KnownToken) -> None:
        now_ms, token_id = self._services.now_ms(), token.id
        if token.used_at is not None and now_ms - token.used_at < SEEN_MS:
            return
        self._services.database.write(
            lambda session: tokens.touch(
                session,
                token_id,
                now_ms=now_ms,
                before_ms=now_ms - SEEN_MS,
                address=request.remote_addr or "",
            )
        )


def _trusted(caller: Actor) -> Call:
    return Call(actor=caller, user_id=0, token_name="", owner=caller.who, scopes=frozenset(Scope))


def require_scope(call: Call, scope: Scope) -> None:
    """Raise Refusal 403 unless token and owner both have what a scope requires."""
    if not call.has(scope):
        raise Refusal(403, f"the token has no scope {scope.value}")
    if not call.actor.may(RIGHTS[scope]):
        raise Refusal(
            403, f"the token's owner does not have the right that scope {scope.value} needs"
        )


def too_many_requests(detail: str, wait_seconds: float) -> Refusal:
    """Return a refusal with status 429 and Retry-After."""
    seconds = str(max(1, math.ceil(wait_seconds)))
    return Refusal(429, detail, headers={"Retry-After": seconds})


def _unauthorized(detail: str) -> Refusal:
    challenge: dict[str, Any] = {
        "WWW-Authenticate": f'{_CHALLENGE["WWW-Authenticate"]}, error="invalid_token"'
    }
    return Refusal(401, detail, headers=challenge)
