"""An OpenID provider on 127.0.0.1, as strict as real ones, that fails in each way a test asks for.

It checks what providers check: client and secret, the exact redirect URI, the code's single use,
PKCE. Its users sign in by name, on a form or by `OidcProvider.callback`.
"""

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "warren", "client-secret-of-the-tests"
#: Where its pages and services are, below its address.
AUTHORIZE, TOKEN, KEYS, USER_INFO, END_SESSION = (
    "/authorize",
    "/token",
    "/keys",
    "/userinfo",
    "/logout",
)
DISCOVERY = "/.well-known/openid-configuration"
_COOKIE = "provider_session"
_CODE_SECONDS = 60


@dataclass
class Person:
    """A user of the provider; `groups` None = the claim is missing."""

    subject: str
    groups: list[str] | None = field(default_factory=list)
    claims: dict[str, Any] = field(default_factory=dict)


@dataclass
class Faults:
    """What the provider does wrong, or differently, from now on.

    Attributes:
        audience, issuer, nonce, state: sent instead of the right one.
        clock_seconds: how far its clock is ahead.
        session_seconds: how long ago people signed in there.
        is_expired: ID tokens ended an hour ago.
        unknown_key: ID tokens are signed with a key that it does not publish.
        is_unsigned: ID tokens have the algorithm `none`.
        no_keys: the service for keys is out of order.
        no_user_info: the service for user info is.
        odd_keys: published before the key that it signs with.
        has_key_ids: keys and ID tokens name the key.
        is_away: it closes every connection without an answer.
        status: the status of every answer; 0 = as usual.
        tokens: the text of the answer with tokens; "" = as usual.
        delay_seconds: how long every answer takes.
        gives_refresh_tokens: with every token, as Keycloak does.
        refuses_refresh: refresh tokens no longer work, as after an administrator ended the session.
        refreshes_id_token: the answer to a refresh has an ID token.
        has_end_session: it announces where to sign out.
        groups_by_link: groups are replaced by a link, as by Entra ID for people in more than 200.
        denies: the person refuses, or may not use this client.

    """

    audience: str | None = None
    issuer: str | None = None
    nonce: str | None = None
    state: str | None = None
    clock_seconds: float = 0.0
    session_seconds: int = 0
    is_expired: bool = False
    unknown_key: bool = False
    is_unsigned: bool = False
    no_keys: bool = False
    no_user_info: bool = False
    odd_keys: list[Any] = field(default_factory=list)
    has_key_ids: bool = True
    is_away: bool = False
    status: int = 0
    tokens: str = ""
    delay_seconds: float = 0.0
    gives_refresh_tokens: bool = True
    refuses_refresh: bool = False
    refreshes_id_token: bool = True
    has_end_session: bool = True
    groups_by_link: bool = False
    denies: bool = False


@dataclass
class _Grant:
    """What a code or a token stands for."""

    name: str
    nonce: str = ""
    redirect_uri: str = ""
    challenge: str = ""
    until: float = 0.0


class OidcProvider:
    """A provider with one client; used as a context.

    Args:
        clock: epoch seconds, for tests whose console has a clock of its own.
        redirect_uris: those that the client may use; none = any.
        secret: that of the client; empty = a public client, which needs PKCE alone.

    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        redirect_uris: tuple[str, ...] = (),
        secret: str = CLIENT_SECRET,
    ) -> None:
        self.people: dict[str, Person] = {}
        self.faults = Faults()
        self.redirect_uris = redirect_uris
        self.secret = secret
        #: Method and path of each request, without its query.
        self.requests: list[tuple[str, str]] = []
        #: The queries of requests to sign out.
        self.sign_outs: list[dict[str, str]] = []
        self._clock = clock
        self._key = _key("first")
        self._codes: dict[str, _Grant] = {}
        self._refresh_tokens: dict[str, _Grant] = {}
        self._access_tokens: dict[str, _Grant] = {}
        #: The name of who is signed in here, by cookie.
        self._sessions: dict[str, str] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def add(
        self, name: str, *groups: str, subject: str = "", no_groups: bool = False, **claims: Any
    ) -> Person:
        """Add a person who signs in by this name; by default the subject follows from it."""
        person = Person(subject or f"subject-of-{name}", None if no_groups else [*groups], claims)
        self.people[name] = person
        return person

    def rotate_key(self) -> None:
        """Sign with a new key, and no longer publish the old one."""
        self._key = _key(secrets.token_hex(4))

    def end_sessions(self) -> None:
        """End everybody's session and refresh tokens, as an administrator can."""
        with self._lock:
            self._sessions.clear()
            self._refresh_tokens.clear()

    def callback(self, authorize_url: str, name: str) -> str:
        """Sign a person in without a browser; return where the provider sends the browser."""
        sent = Request(authorize_url, data=urlencode({"username": name}).encode())
        with build_opener(_NoRedirects).open(sent, timeout=10) as answer:
            location: str = answer.headers["Location"]
        return location

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: str) -> "Answer":
        """Answer a request, or fail as `faults` say."""
        parts = urlsplit(target)
        self.requests.append((method, parts.path))
        if self.faults.delay_seconds:
            self._closed.wait(self.faults.delay_seconds)
        if self.faults.status:
            return Answer(self.faults.status, "text/plain", "out of order")
        broken = {KEYS: self.faults.no_keys, USER_INFO: self.faults.no_user_info}
        if broken.get(parts.path):
            return Answer(503, "text/plain", "out of order")
        asked, form = _values(parts.query), _values(body)
        pages: dict[str, Callable[[], Answer]] = {
            DISCOVERY: lambda: _json(self._metadata()),
            KEYS: lambda: _json({"keys": self._published()}),
            AUTHORIZE: lambda: self._authorize(target, asked, form, headers),
            TOKEN: lambda: (
                Answer(200, "application/json", self.faults.tokens)
                if self.faults.tokens
                else self._tokens(form, headers)
            ),
            USER_INFO: lambda: self._user_info(headers),
            END_SESSION: lambda: self._sign_out(asked | form, headers),
        }
        page = pages.get(parts.path)
        return page() if page else Answer(404, "text/plain", "nothing here")

    def _metadata(self) -> dict[str, Any]:
        known = {
            "issuer": self.issuer,
            "authorization_endpoint": self.issuer + AUTHORIZE,
            "token_endpoint": self.issuer + TOKEN,
            "jwks_uri": self.issuer + KEYS,
            "userinfo_endpoint": self.issuer + USER_INFO,
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid", "profile", "email", "groups", "offline_access"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }
        if self.faults.has_end_session:
            known["end_session_endpoint"] = self.issuer + END_SESSION
        return known

    def _authorize(
        self, target: str, asked: dict[str, str], form: dict[str, str], headers: Mapping[str, str]
    ) -> "Answer":
        if problem := self._problem(asked):
            return Answer(400, "text/plain", problem)
        name = form.get("username") or self._sessions.get(_session(headers), "")
        if asked.get("prompt") == "login" and not form:
            name = ""
        if name not in self.people:
            return Answer(200, "text/html", _FORM.format(action=html.escape(target)))
        back = {"state": self.faults.state or asked["state"]}
        if self.faults.denies:
            return _redirect(asked["redirect_uri"], back | {"error": "access_denied"})
        code, session = secrets.token_urlsafe(24), secrets.token_urlsafe(16)
        with self._lock:
            self._sessions[session] = name
            self._codes[code] = _Grant(
                name,
                asked.get("nonce", ""),
                asked["redirect_uri"],
                asked.get("code_challenge", ""),
                self._now() + _CODE_SECONDS,
            )
        cookie = {"Set-Cookie": f"{_COOKIE}={session}; HttpOnly; Path=/; SameSite=Lax"}
        return _redirect(asked["redirect_uri"], back | {"code": code}, cookie)

    def _problem(self, asked: dict[str, str]) -> str:
        """Return what is wrong with a request of a browser; empty if nothing is."""
        uri = asked.get("redirect_uri", "")
        known = uri in self.redirect_uris if self.redirect_uris else bool(uri)
        rules = {
            "client_id": asked.get("client_id") == CLIENT_ID,
            "redirect_uri": known,
            "response_type": asked.get("response_type") == "code",
            "scope": "openid" in asked.get("scope", "").split(),
            "state": bool(asked.get("state")),
            "nonce": bool(asked.get("nonce")),
            "code_challenge": bool(asked.get("code_challenge")),
            "code_challenge_method": asked.get("code_challenge_method") == "S256",
        }
        wrong = [name for name, is_right in rules.items() if not is_right]
        return f"wrong: {', '.join(wrong)}" if wrong else ""

    def _tokens(self, form: dict[str, str], headers: Mapping[str, str]) -> "Answer":
        if not self._is_client(form, headers):
            return _json({"error": "invalid_client"}, 401)
        if form.get("grant_type") == "authorization_code":
            with self._lock:
                grant = self._codes.pop(form.get("code", ""), None)
            if (
                grant is None
                or grant.until < self._now()
                or grant.redirect_uri != form.get("redirect_uri")
                or grant.challenge != _challenge(form.get("code_verifier", ""))
            ):
                return _json({"error": "invalid_grant"}, 400)
            return _json(self._issued(grant, with_id_token=True))
        if form.get("grant_type") == "refresh_token":
            with self._lock:  # each works once, as with providers that rotate them
                grant = self._refresh_tokens.pop(form.get("refresh_token", ""), None)
            if grant is None or self.faults.refuses_refresh or grant.name not in self.people:
                return _json({"error": "invalid_grant"}, 400)
            return _json(self._issued(grant, with_id_token=self.faults.refreshes_id_token))
        return _json({"error": "unsupported_grant_type"}, 400)

    def _is_client(self, form: dict[str, str], headers: Mapping[str, str]) -> bool:
        if not self.secret:
            return form.get("client_id") == CLIENT_ID
        kind, _, text = headers.get("Authorization", "").partition(" ")
        if kind == "Basic":
            name, _, secret = base64.b64decode(text).decode().partition(":")
            given = (unquote_plus(name), unquote_plus(secret))
        else:
            given = (form.get("client_id", ""), form.get("client_secret", ""))
        return given == (CLIENT_ID, self.secret)

    def _issued(self, grant: _Grant, *, with_id_token: bool) -> dict[str, Any]:
        access = secrets.token_urlsafe(24)
        tokens = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        with self._lock:
            self._access_tokens[access] = grant
            if self.faults.gives_refresh_tokens:
                tokens["refresh_token"] = secrets.token_urlsafe(24)
                self._refresh_tokens[tokens["refresh_token"]] = grant
        if with_id_token:
            tokens["id_token"] = self._id_token(grant)
        return tokens

    def _id_token(self, grant: _Grant) -> str:
        faults, now = self.faults, int(self._now())
        ended = now - 3_600 if faults.is_expired else now
        signed_in = {"auth_time": ended - faults.session_seconds}
        claims = (
            signed_in
            | self._claims(grant.name)
            | {
                "iss": faults.issuer or self.issuer,
                "aud": faults.audience or CLIENT_ID,
                "iat": ended,
                "exp": ended + (-1 if faults.is_expired else 300),
                "nonce": faults.nonce or grant.nonce,
            }
        )
        if faults.is_unsigned:
            parts = ({"alg": "none", "typ": "JWT"}, claims)
            return ".".join([*(_base64(json.dumps(part).encode()) for part in parts), ""])
        key = _key("unknown") if faults.unknown_key else self._key
        # A key that it does not publish has the name of the one that it does.
        named = {"kid": self._key.kid} if faults.has_key_ids else {}
        return jwt.encode({"alg": "RS256"} | named, claims, key)

    def _published(self) -> list[Any]:
        key = dict(self._key.as_dict(private=False))
        if not self.faults.has_key_ids:
            del key["kid"]
        return [*self.faults.odd_keys, key]

    def _claims(self, name: str) -> dict[str, Any]:
        person = self.people[name]
        claims: dict[str, Any] = {
            "sub": person.subject,
            "preferred_username": name,
            "name": name.title(),
            "email": f"{name}@example.com",
            "email_verified": True,
        } | person.claims
        if self.faults.groups_by_link:
            claims["_claim_names"] = {"groups": "src1"}
            claims["_claim_sources"] = {"src1": {"endpoint": f"{self.issuer}/groups"}}
        elif person.groups is not None:
            claims["groups"] = list(person.groups)
        return claims

    def _user_info(self, headers: Mapping[str, str]) -> "Answer":
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        grant = self._access_tokens.get(token)
        if grant is None or grant.name not in self.people:
            return _json({"error": "invalid_token"}, 401)
        return _json(self._claims(grant.name))

    def _sign_out(self, asked: dict[str, str], headers: Mapping[str, str]) -> "Answer":
        self.sign_outs.append(asked)
        with self._lock:
            self._sessions.pop(_session(headers), None)
        if uri := asked.get("post_logout_redirect_uri"):
            return _redirect(uri, {"state": asked["state"]} if "state" in asked else {})
        return Answer(200, "text/html", "<h1>Signed out at the provider</h1>")

    def _now(self) -> float:
        return self._clock() + self.faults.clock_seconds


@dataclass(frozen=True)
class Answer:
    """An answer to a request."""

    status: int
    media: str
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


_FORM = """<!doctype html><html lang="en"><title>Provider</title><h1>Sign in at the provider</h1>
<form method="post" action="{action}"><label>User <input name="username"></label>
<button>Continue</button></form></html>"""


class _NoRedirects(HTTPRedirectHandler):
    def http_error_302(self, _request: Any, answer: Any, *_: Any) -> Any:
        return answer


def _handler(provider: OidcProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            if provider.faults.is_away:
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            answer = provider.answer(self.command, self.path, self.headers, body)
            data = answer.body.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", answer.media)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@cache
def _key(name: str) -> RSAKey:
    """Return a key; making one takes a tenth of a second, so each name has one in all tests."""
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"}, private=True)


def _json(value: dict[str, Any], status: int = 200) -> Answer:
    return Answer(status, "application/json", json.dumps(value), {"Cache-Control": "no-store"})


def _redirect(uri: str, query: dict[str, str], headers: Mapping[str, str] | None = None) -> Answer:
    sign = "&" if urlsplit(uri).query else "?"
    target = f"{uri}{sign}{urlencode(query)}" if query else uri
    return Answer(302, "text/plain", "", {"Location": target, **(headers or {})})


def _values(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


def _session(headers: Mapping[str, str]) -> str:
    cookie = SimpleCookie(headers.get("Cookie", "")).get(_COOKIE)
    return cookie.value if cookie else ""


def _challenge(verifier: str) -> str:
    return _base64(hashlib.sha256(verifier.encode()).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
