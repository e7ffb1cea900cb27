"""Single sign-on by OpenID Connect: code flow with PKCE, ID tokens, refresh tokens, user info.

Loaded only where it is set up: Authlib is an extra. It verifies; the few HTTP requests are made
here, so that each ends in time, reads little, and follows no redirect with a secret.
"""

import base64
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from math import isfinite
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

import msgspec
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ExpiredTokenError,
    InvalidClaimError,
    InvalidKeyIdError,
    JoseError,
)
from joserfc.jwk import JWKRegistry, KeySet
from joserfc.jws import JWSRegistry

from warren.admin_web.identity_provider import (
    AccessEnded,
    Attempt,
    GroupsMissing,
    Proof,
    ProviderAway,
    ProviderError,
    SignInInvalid,
)
from warren.broker.transport import is_loopback
from warren.scheduler.commands.identity_commands import Person
from warren.scheduler.problems import counted
from warren.sql.accounts.identities import MAX_LENGTH
from warren.sql.instants import iso

#: How a provider may sign: never with the client's secret, and never not at all.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
#: How far the clocks of provider and database may differ.
SKEW_SECONDS = 60
#: How long the provider may be silent, and how long one answer may take in all.
SILENCE_SECONDS, ANSWER_SECONDS = 4.0, 8.0
#: How many threads may wait for the provider at a time; others are refused after a while.
MOST_WAITING = 8
#: How long its description and its keys are kept; how soon it is asked again for a description
#: that it did not give, and for keys because one is unknown.
DESCRIPTION_SECONDS, FAILED_SECONDS, KEYS_SECONDS = 3_600.0, 5.0, 10.0
#: The most bytes of an answer: 500 groups in an ID token take some 30 kB.
ANSWER_BYTES = 2_000_000
#: The longest ID token that is sent back in a URL.
HINT_LENGTH = 4_000
_MAX_ID_TOKEN = 500_000
_WANTED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_SCOPES, _OFFLINE = "openid profile email", "offline_access"
_NAMES = ("preferred_username", "email", "upn", "nickname", "name")
_REFUSALS = range(400, 500)
#: Refusals that say "not now".
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_CLIENT_REFUSED = ("invalid_client", "unauthorized_client")
_WELL_KNOWN = "/.well-known/openid-configuration"
_NONCE_BYTES = 12
_JSON = {"Accept": "application/json"}
_FORM = {**_JSON, "Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIDClient:
    """What a provider and this cluster know of each other.

    `scopes` None = the usual ones, with a refresh token if the provider offers one.
    """

    issuer: str
    client_id: str
    client_secret: str | None
    redirect_url: str
    scopes: str | None = None
    groups_claim: str = "groups"


class OpenIDConnect:
    """A provider that speaks OpenID Connect; thread-safe.

    Args:
        client: how it knows us.
        keys: of 32 bytes; the first encrypts what is stored, all decrypt it.
        now_ms: the clock by which tokens expire.
        monotonic: seconds, for what is kept for a while.

    """

    def __init__(
        self,
        client: OpenIDClient,
        keys: Sequence[bytes],
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._ciphers = [AESGCM(key) for key in keys]
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._http = _Http(is_here=is_loopback(urlsplit(client.issuer).hostname or ""))
        self._lock = threading.Lock()
        self._description: Mapping[str, Any] = {}
        self._described_at = self._failed_at = self._keys_at = float("-inf")
        self._failure = self._keys_failure = ""
        self._keys: KeySet | None = None

    @property
    def issuer(self) -> str:
        return self._client.issuer

    def new_attempt(self) -> Attempt:
        return Attempt(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
        )

    def sign_in_url(self, attempt: Attempt, *, is_fresh: bool = False) -> str:
        described = self._described()
        wishes = {"prompt": "login", "max_age": "0"} if is_fresh else {}
        return str(
            prepare_grant_uri(
                described["authorization_endpoint"],
                client_id=self._client.client_id,
                response_type="code",
                redirect_uri=self._client.redirect_url,
                scope=self._scopes(described),
                state=attempt.state,
                nonce=attempt.nonce,
                code_challenge=create_s256_code_challenge(attempt.verifier),
                code_challenge_method="S256",
                **wishes,
            )
        )

    def redeem(self, attempt: Attempt, code: str, *, issuer: str | None) -> Proof:
        described = self._described()
        names_itself = described.get("authorization_response_iss_parameter_supported") is True
        if issuer != self.issuer and (issuer is not None or names_itself):
            raise SignInInvalid("the answer is of another issuer")
        answer = self._token(
            "authorization_code",
            code=code,
            redirect_uri=self._client.redirect_url,
            code_verifier=attempt.verifier,
        )
        if "error" in answer:
            is_of_client = answer["error"] in _CLIENT_REFUSED
            what = "Warren's client ID or secret" if is_of_client else "its own code"
            raise SignInInvalid(f"the provider refused {what}: {_error_of(answer)}")
        claims = self._claims(answer, nonce=attempt.nonce)
        return self._proof(answer, claims, answer.get("refresh_token"))

    def read_again(self, refresh_token: str, subject: str) -> Proof:
        answer = self._token("refresh_token", refresh_token=refresh_token)
        if answer.get("error") == "invalid_grant":
            raise AccessEnded(f"the provider no longer takes it: {_error_of(answer)}")
        if "error" in answer:
            raise ProviderError(f"the provider refused to be asked again: {_error_of(answer)}")
        fresh = answer.get("refresh_token") or refresh_token
        try:
            return self._proof(answer, self._claims_again(answer, subject), fresh)
        except ProviderError as error:
            error.refresh_token = fresh
            raise

    def sign_out_url(self, id_token: str, back_to: str) -> str | None:
        try:
            place = (self._description or self._described()).get("end_session_endpoint")
        except ProviderError:
            return None
        if not isinstance(place, str):
            return None
        told = {"client_id": self._client.client_id, "post_logout_redirect_uri": back_to}
        if 0 < len(id_token) <= HINT_LENGTH:
            told["id_token_hint"] = id_token
        return f"{place}{'&' if '?' in place else '?'}{urlencode(told)}"

    def seal(self, text: str, owner: str) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[0].encrypt(nonce, text.encode(), owner.encode())
        return base64.b64encode(nonce + sealed).decode()

    def unseal(self, sealed: str, owner: str) -> str | None:
        data = base64.b64decode(sealed)
        for cipher in self._ciphers:
            try:
                opened = cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], owner.encode())
            except InvalidTag:
                continue
            return opened.decode()
        return None

    def check(self) -> str:
        """Return what the provider offers, for a person who sets it up.

        Raises:
            ProviderError: it does not answer, or lacks what is needed.

        """
        described = self._described()
        count = len(list(self._known_keys()))
        words = [f"{self.issuer} answers", counted(count, "key")]
        if _OFFLINE not in self._scopes(described).split():
            words.append("no scope offline_access: sessions may last 15 minutes only")
        if "end_session_endpoint" not in described:
            words.append("no sign-out there")
        return ", ".join(words)

    def _scopes(self, described: Mapping[str, Any]) -> str:
        if self._client.scopes is not None:
            return self._client.scopes
        offers = described.get("scopes_supported")
        is_offered = isinstance(offers, list) and _OFFLINE in offers
        return f"{_SCOPES} {_OFFLINE}" if is_offered else _SCOPES

    def _described(self) -> Mapping[str, Any]:
        """Return the provider's description of itself, fetched at most once an hour."""
        with self._lock:
            now = self._monotonic()
            if now - self._described_at < DESCRIPTION_SECONDS:
                return self._description
            if now - self._failed_at < FAILED_SECONDS:
                if self._description:
                    return self._description
                raise ProviderAway(self._failure)
            try:
                self._description = self._fetched_description()
            except ProviderError as error:
                self._failed_at, self._failure = self._monotonic(), str(error)
                if not self._description:
                    raise
            else:
                self._described_at = self._monotonic()
            return self._description

    def _fetched_description(self) -> Mapping[str, Any]:
        found = self._http.json("GET", self.issuer.rstrip("/") + _WELL_KNOWN, _JSON)
        if found.get("issuer") != self.issuer:
            said = str(found.get("issuer"))[:200]
            raise ProviderError(f"expected the issuer {self.issuer}, but the provider says {said}")
        for name in _WANTED:
            if not self._http.may_call(found.get(name)):
                raise ProviderError(f"the provider's description has no https URL as {name}")
        return found

    def _known_keys(self, *, instead_of: KeySet | None = None) -> KeySet:
        """Return the provider's keys, which are fetched every hour.

        Instead of those that do not fit a token, new ones are, unless they were within 10 s.

        Raises:
            ProviderError: it gives none.

        """
        address = self._described()["jwks_uri"]
        with self._lock:
            age, known = self._monotonic() - self._keys_at, self._keys
            if known is None and age < KEYS_SECONDS:
                raise ProviderAway(self._keys_failure)
            lasts = KEYS_SECONDS if known is instead_of else DESCRIPTION_SECONDS
            if known is not None and age < lasts:
                return known
            try:
                self._keys = self._fetched_keys(address)
            except ProviderError as error:
                self._keys_failure = str(error)
                if known is None or known is instead_of:
                    raise
                return known
            finally:
                self._keys_at = self._monotonic()
            return self._keys

    def _fetched_keys(self, address: str) -> KeySet:
        found = self._http.json("GET", address, _JSON).get("keys")
        keys = []
        for each in found if isinstance(found, list) else []:
            # Others are of a kind that our library does not know; RFC 7517 has them ignored.
            with suppress(JoseError, ValueError, TypeError, KeyError):
                keys.append(JWKRegistry.import_key(each))
        if not keys:
            raise ProviderError("the provider's keys cannot be read")
        return KeySet(keys)

    def _token(self, grant: str, **told: str) -> dict[str, Any]:
        """Return what the token endpoint answers; it has `error` if that refuses."""
        described = self._described()
        methods = described.get("token_endpoint_auth_methods_supported")
        if not isinstance(methods, list) or not methods:
            methods = ["client_secret_basic"]  # what the standard says of a provider that says none
        name, secret, method = self._client.client_id, self._client.client_secret, "none"
        if secret is not None and "client_secret_basic" in methods:
            # RFC 6749 has both encoded like a form before they are joined; Authlib does not.
            name, secret, method = quote_plus(name), quote_plus(secret), "client_secret_basic"
        elif secret is not None:
            method = "client_secret_post"
        address, headers, body = ClientAuth(name, secret, method).prepare(
            "POST", described["token_endpoint"], dict(_FORM), prepare_token_request(grant, **told)
        )
        return self._http.json("POST", address, headers, body.encode(), takes_refusal=True)

    def _claims(self, answer: Mapping[str, Any], nonce: str | None = None) -> dict[str, Any]:
        """Return what a valid ID token says.

        Raises:
            SignInInvalid: there is none, or it is not valid.

        """
        text = answer.get("id_token")
        if not isinstance(text, str) or len(text) > _MAX_ID_TOKEN:
            raise SignInInvalid("the provider sent no ID token")
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        registry.max_payload_length = _MAX_ID_TOKEN
        keys = self._known_keys()
        try:
            try:
                token = jwt.decode(text, keys, registry=registry)
            except (InvalidKeyIdError, BadSignatureError):  # a new key may have no name, or the old
                token = jwt.decode(text, self._known_keys(instead_of=keys), registry=registry)
            claims = CodeIDToken(
                token.claims,
                token.header,
                {
                    "iss": {"essential": True, "value": self.issuer},
                    "aud": {"essential": True, "value": self._client.client_id},
                    "sub": {"essential": True},
                },
                {
                    "nonce": nonce,
                    "client_id": self._client.client_id,
                    "access_token": answer.get("access_token"),
                },
            )
            claims.validate(now=self._now_ms() // 1000, leeway=SKEW_SECONDS)
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise SignInInvalid(f"its ID token is not valid: {self._words(error)}") from error
        return dict(claims)

    def _claims_again(self, answer: Mapping[str, Any], subject: str) -> dict[str, Any]:
        """Return what the answer to a refresh says of a person, or what user info does.

        Raises:
            ProviderError: neither does.

        """
        claims = self._claims(answer) if answer.get("id_token") else self._user_info(answer)
        if not claims:
            raise ProviderError("the provider sent neither an ID token nor user info")
        if claims.get("sub") != subject:
            raise ProviderError("the provider answered about another person")
        return claims

    def _words(self, error: Exception) -> str:
        """Return what is wrong with a token in words; what concerns time names our clock."""
        words = " ".join(str(error).split())[:200]
        is_of_time = isinstance(error, ExpiredTokenError) or (
            isinstance(error, InvalidClaimError) and error.claim in ("iat", "nbf")
        )
        return f"{words} (the clock here says {iso(self._now_ms())})" if is_of_time else words

    def _user_info(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the provider says of whom an access token belongs to; empty if it does not.

        Raises:
            ProviderError: it does not answer.

        """
        address, token = self._described().get("userinfo_endpoint"), answer.get("access_token")
        if not isinstance(address, str) or not self._http.may_call(address):
            return {}
        if not isinstance(token, str):
            return {}
        return self._http.json("GET", address, {**_JSON, "Authorization": f"Bearer {token}"})

    def _proof(
        self, answer: Mapping[str, Any], claims: dict[str, Any], refresh_token: object
    ) -> Proof:
        subject = claims.get("sub")
        if not isinstance(subject, str) or not _is_name(subject):
            raise SignInInvalid("the provider names nobody")
        wanted = self._client.groups_claim
        found = _groups(claims, wanted)
        if found is None:
            # Many providers keep groups out of ID tokens.
            more = self._user_info(answer)
            if more and more.get("sub") != subject:
                raise SignInInvalid("the provider's user info is about another person")
            found, claims = _groups(more, wanted), {**more, **claims}
        elsewhere = claims.get("_claim_names")
        if found is None and isinstance(elsewhere, Mapping) and wanted in elsewhere:
            raise GroupsMissing(
                f"the provider leaves {wanted} out because there are too many: let it send only "
                "the groups that are assigned to Warren"
            )
        names = (claims.get(name) for name in _NAMES)
        at = claims.get("auth_time")
        return Proof(
            person=Person(
                issuer=self.issuer,
                subject=subject,
                groups=found or (),
                name=next((name for name in names if isinstance(name, str) and name), ""),
            ),
            has_groups=found is not None,
            refresh_token=refresh_token if isinstance(refresh_token, str) else None,
            id_token=str(answer.get("id_token") or ""),
            signed_in_at=int(at) if isinstance(at, int | float) and isfinite(at) else None,
        )


def _is_name(subject: str) -> bool:
    return 0 < len(subject) <= MAX_LENGTH and subject.isprintable() and not subject.isspace()


def _groups(claims: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the groups in a claim, or in one within claims such as `realm_access.roles`.

    None if it is missing, or neither a list nor a text.
    """
    found: Any = claims
    for part in [name] if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    listed = [found] if isinstance(found, str) else found
    if not isinstance(listed, list):
        return None
    return tuple(dict.fromkeys(each for each in listed if isinstance(each, str)))


def _error_of(answer: Mapping[str, Any]) -> str:
    said = " ".join(str(answer.get("error_description") or answer.get("error")).split())
    return said[:200]


class _Http:
    """Asks the provider: no redirects, no answer that is slow or large, few requests at a time.

    `is_here`: it is on this machine, so http is enough and no proxy stands before it. Elsewhere the
    usual variables name a proxy, and the system's authorities are trusted.
    """

    def __init__(self, *, is_here: bool) -> None:
        self._is_here = is_here
        self._places = threading.BoundedSemaphore(MOST_WAITING)
        self._opener = OpenerDirector()
        for handler in (
            ProxyHandler({} if is_here else None),
            HTTPHandler(),
            HTTPSHandler(context=ssl.create_default_context()),
            HTTPDefaultErrorHandler(),
            HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def may_call(self, address: object) -> bool:
        """Return whether a URL is one of https, or of this machine if the provider is."""
        if not isinstance(address, str) or not address.isascii():
            return False
        try:
            parts = urlsplit(address)
        except ValueError:
            return False
        is_here = self._is_here and is_loopback(parts.hostname or "")
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and is_here)
        )

    def json(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        takes_refusal: bool = False,
    ) -> dict[str, Any]:
        """Return the JSON object of an answer; `takes_refusal`: of a refusal with `error` too.

        Raises:
            ProviderAway: it does not answer in time.
            ProviderError: it answers something else.

        """
        parts = urlsplit(address)
        place = parts.netloc
        if not self._places.acquire(timeout=SILENCE_SECONDS):
            raise ProviderAway(f"the provider at {place} answers too slowly")
        try:
            request = Request(address, body, dict(headers), method=method)  # noqa: S310 - checked
            status, data = self._answer(request)
        except TimeoutError as error:
            raise ProviderAway(f"the provider at {place} does not answer in time") from error
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", None) or error
            if isinstance(why, TimeoutError):
                raise ProviderAway(f"the provider at {place} does not answer in time") from error
            words = " ".join(str(why).split())[:200]
            raise ProviderAway(f"the provider at {place} cannot be reached: {words}") from error
        finally:
            self._places.release()
        try:
            found = msgspec.json.decode(data)  # knows no NaN and no half of a character
        except (msgspec.MsgspecError, RecursionError):
            found = None
        is_taken = status == HTTPStatus.OK or (takes_refusal and status in _REFUSALS)
        if isinstance(found, dict) and is_taken:
            return found
        kind = ProviderAway if status in _PASSING or status not in _REFUSALS else ProviderError
        how = "without a JSON object" if status == HTTPStatus.OK else f"with status {status}"
        raise kind(f"the provider at {place}{parts.path} answered {how}")

    def _answer(self, request: Request) -> tuple[int, bytes]:
        ends_at = time.monotonic() + ANSWER_SECONDS
        try:
            answer = self._opener.open(request, timeout=SILENCE_SECONDS)
        except HTTPError as error:
            answer = error
        with answer:
            read = b""
            while part := answer.read1(65_536):
                read += part
                if time.monotonic() > ends_at or len(read) > ANSWER_BYTES:
                    raise TimeoutError
            return int(answer.status), read
