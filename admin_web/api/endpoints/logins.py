"""Logins of the command line: a command asks for a token, and gets it once its user has agreed."""

from typing import Any

from flask import request

from warren.admin_web.access.sign_ins import network_of
from warren.admin_web.api.authentication import RateLimits, too_many_requests
from warren.admin_web.api.endpoint import Call, endpoint
from warren.admin_web.api.problem_answers import Refusal
from warren.admin_web.services import ApiServices
from warren.resources.accounts import LoginAnswer, LoginAsked, LoginProof, LoginWish
from warren.resources.instant import Instant
from warren.resources.operation import OpenAccess
from warren.scheduler.commands.command_logins import (
    LIFE_SECONDS,
    CommandLogins,
    Given,
    Gone,
    TooManyLogins,
    Waiting,
)

#: Below the console: where a user allows a login.
PAGE = "/cli"
#: How often commands ask, and how often a network may: some are many people's.
POLL_SECONDS = 2
_ASKS, _ASKS_AT_ONCE = 5.0, 100.0
_BODY_BYTES = 4_000


class LoginEndpoints:
    """Logins of the command line. They need no token, as their purpose is to get one."""

    name = "logins"

    def __init__(self, services: ApiServices) -> None:
        self._console_url = services.console_url
        self._logins = CommandLogins(services.database, services.now_ms)
        self._asks = RateLimits(_ASKS, _ASKS_AT_ONCE)

    @endpoint(
        "POST",
        "/logins",
        OpenAccess.ANYONE,
        LoginAsked,
        status=201,
        body=LoginWish,
        body_bytes=_BODY_BYTES,
    )
    def ask(self, call: Call) -> LoginAsked:
        """Ask for a token of the user who allows it in the console, within ten minutes."""
        if not self._console_url:
            raise Refusal(409, "this API does not know its console: set WARREN_CONSOLE_URL for it")
        wish: LoginWish = call.body
        origin = request.remote_addr or ""
        asked = self._logins.ask(wish, origin=origin, network=network_of(origin))
        if isinstance(asked, TooManyLogins):
            raise too_many_requests("too many logins from this address", asked.seconds)
        page = f"{self._console_url}{PAGE}"
        return LoginAsked(
            page=f"{page}?request={asked.key}" if wish.port else page,
            code="" if wish.port else asked.key,
            poll_seconds=POLL_SECONDS,
            life_seconds=LIFE_SECONDS,
        )

    @endpoint(
        "POST",
        "/logins/token",
        OpenAccess.ANYONE,
        LoginAnswer,
        body=LoginProof,
        body_bytes=_BODY_BYTES,
        other_answers={410: "there is no such login, its time is up, or its token was given"},
    )
    def give(self, call: Call) -> LoginAnswer:
        """Return the token that the user has allowed, once, to the command that has asked."""
        origin = request.remote_addr or ""
        if wait := self._asks.take(hash(network_of(origin))):
            raise too_many_requests("this address asks too often", wait)
        given: Any = self._logins.give(call.body, origin=origin)
        match given:
            case Given():
                return LoginAnswer(
                    state="allowed",
                    token=given.token,
                    name=given.name,
                    owner=given.owner,
                    expires_at=Instant.of(given.until_ms),
                )
            case Gone():
                raise Refusal(410, "this login is over: its ten minutes are up, or it was used")
        return LoginAnswer(state="waiting" if isinstance(given, Waiting) else "refused")
