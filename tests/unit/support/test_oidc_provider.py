"""The OpenID provider of the tests: a right client gets through, and each fault is one."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from tests.support import oidc_provider
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider

REDIRECT = "http://127.0.0.1:9/sso/callback"
VERIFIER = "a-verifier-of-the-tests-with-enough-characters"
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
)


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with OidcProvider(redirect_uris=(REDIRECT,)) as provider:
        provider.add("alice", "warren-admins")
        yield provider


def authorize_url(provider: OidcProvider, **changed: str) -> str:
    asked = {
        "client_id": CLIENT_ID,
        "response_type": "code",
        "scope": "openid",
        "redirect_uri": REDIRECT,
        "state": "state-1",
        "nonce": "nonce-1",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    return f"{provider.issuer}{oidc_provider.AUTHORIZE}?{urlencode(asked | changed)}"


def code_of(provider: OidcProvider) -> str:
    query = parse_qs(urlsplit(provider.callback(authorize_url(provider), "alice")).query)
    assert query["state"] == ["state-1"]
    return query["code"][0]


def exchange(provider: OidcProvider, **given: str) -> dict[str, Any]:
    client = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    data = urlencode(client | given).encode()
    with urlopen(Request(provider.issuer + oidc_provider.TOKEN, data), timeout=10) as answer:
        tokens: dict[str, Any] = json.load(answer)
    return tokens


def tokens_of(provider: OidcProvider) -> dict[str, Any]:
    grant = {"grant_type": "authorization_code", "redirect_uri": REDIRECT}
    return exchange(provider, **grant, code=code_of(provider), code_verifier=VERIFIER)


def claims_of(provider: OidcProvider, tokens: dict[str, Any]) -> dict[str, Any]:
    with urlopen(provider.issuer + oidc_provider.KEYS, timeout=10) as answer:
        keys = KeySet.import_key_set(json.load(answer))
    return jwt.decode(tokens["id_token"], keys).claims


def test_a_right_client_gets_the_groups_and_gets_them_again(provider: OidcProvider) -> None:
    tokens = tokens_of(provider)
    first = claims_of(provider, tokens)
    provider.people["alice"].groups = []

    again = exchange(provider, grant_type="refresh_token", refresh_token=tokens["refresh_token"])

    assert (first["iss"], first["aud"], first["nonce"]) == (provider.issuer, CLIENT_ID, "nonce-1")
    assert (first["sub"], first["groups"]) == ("subject-of-alice", ["warren-admins"])
    assert claims_of(provider, again)["groups"] == []


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "other"},
        {"redirect_uri": f"{REDIRECT}/"},
        {"scope": "profile"},
        {"nonce": ""},
        {"code_challenge_method": "plain"},
    ],
)
def test_a_wrong_request_of_a_browser_is_refused(
    provider: OidcProvider, changed: dict[str, str]
) -> None:
    with pytest.raises(HTTPError, match="400"):
        provider.callback(authorize_url(provider, **changed), "alice")


@pytest.mark.parametrize(
    "changed", [{"code_verifier": "another"}, {"redirect_uri": "http://127.0.0.1:9/"}]
)
def test_a_code_works_only_for_who_asked(provider: OidcProvider, changed: dict[str, str]) -> None:
    right = {"code_verifier": VERIFIER, "redirect_uri": REDIRECT, "code": code_of(provider)}

    with pytest.raises(HTTPError, match="400"):
        exchange(provider, grant_type="authorization_code", **right | changed)
    with pytest.raises(HTTPError, match="400"):  # and only once
        exchange(provider, grant_type="authorization_code", **right)


def test_a_wrong_secret_is_refused(provider: OidcProvider) -> None:
    with pytest.raises(HTTPError, match="401"):
        exchange(provider, grant_type="refresh_token", client_secret="wrong")


@pytest.mark.parametrize(
    ("fault", "claim"),
    [("audience", "aud"), ("issuer", "iss"), ("nonce", "nonce")],
)
def test_wrong_claims_are_signed_all_the_same(
    provider: OidcProvider, fault: str, claim: str
) -> None:
    setattr(provider.faults, fault, "wrong")

    assert claims_of(provider, tokens_of(provider))[claim] == "wrong"


def test_keys_change_and_a_foreign_key_does_not_fit(provider: OidcProvider) -> None:
    old = tokens_of(provider)
    provider.rotate_key()

    new = tokens_of(provider)
    provider.faults.unknown_key = True
    foreign = tokens_of(provider)

    assert claims_of(provider, new)["sub"] == "subject-of-alice"
    for tokens in (old, foreign):
        with pytest.raises(JoseError):
            claims_of(provider, tokens)


def test_it_can_be_away_or_out_of_order(provider: OidcProvider) -> None:
    provider.faults.is_away = True
    with pytest.raises((URLError, ConnectionError)):
        tokens_of(provider)

    provider.faults.is_away, provider.faults.status = False, 503
    with pytest.raises(HTTPError, match="503"):
        tokens_of(provider)
