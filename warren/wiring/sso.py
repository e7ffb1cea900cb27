"""Makes single sign-on from the settings; its library is an extra, loaded only here."""

from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import urlsplit

from warren.admin_web.services import SingleSignOn
from warren.broker.signing import derived_key
from warren.broker.transport import is_loopback
from warren.errors import CommandError, SettingsError
from warren.settings.setting_rules import CALLBACK_PATH, EVERYBODY, check_redirect_url
from warren.settings.settings import KINDS, PREFIX, Settings

#: What the key is for that encrypts refresh tokens and ID tokens.
_KEY = "sso/tokens"
_HOUR_MS = 3_600_000


def make_sso(settings: Settings, secret: str, now_ms: Callable[[], int]) -> SingleSignOn | None:
    """Return single sign-on as it is set up; None if it is not.

    Raises:
        SettingsError: a setting is missing.
        CommandError: the extra is not installed.

    """
    issuer, client_id, redirect_url = settings.oidc_issuer, settings.oidc_client_id, ""
    problems = []
    if issuer is None:
        return None
    if client_id is None:
        expected = KINDS["oidc_client_id"].expected
        problems.append(f"{PREFIX}OIDC_CLIENT_ID: expected {expected}, it is not set")
    try:
        redirect_url = _redirect_url(settings)
    except ValueError as error:
        expected = KINDS["oidc_redirect_url"].expected
        problems.append(f"{PREFIX}OIDC_REDIRECT_URL: expected {expected} ({error})")
    if problems or client_id is None:
        raise SettingsError(problems)
    if find_spec("authlib") is None:
        raise CommandError(
            f"{PREFIX}OIDC_ISSUER needs the extra sso: install Warren's wheel with [server,sso]"
        )
    from warren.admin_web.access.openid_connect import (  # noqa: PLC0415 - an extra
        OpenIDClient,
        OpenIDConnect,
    )

    client = OpenIDClient(
        issuer=issuer,
        client_id=client_id,
        client_secret=settings.oidc_client_secret,
        redirect_url=redirect_url,
        scopes=settings.oidc_scopes,
        groups_claim=settings.oidc_groups_claim,
    )
    secrets = [secret, *([settings.secret_previous] if settings.secret_previous else [])]
    keys = [derived_key(each.encode(), _KEY) for each in secrets]
    return SingleSignOn(
        provider=OpenIDConnect(client, keys, now_ms),
        tokens_ms=round(settings.oidc_token_hours * _HOUR_MS),
        contact=settings.oidc_contact or "",
        signed_out_url=redirect_url.removesuffix(CALLBACK_PATH) + "/login",
    )


def local_names(settings: Settings) -> frozenset[str] | None:
    """Return who may sign in with a password; None = all who have one."""
    if settings.local_sign_in == EVERYBODY:
        return None
    return frozenset(settings.local_sign_in.split(","))


def _redirect_url(settings: Settings) -> str:
    given = settings.oidc_redirect_url
    if given is not None:
        host = urlsplit(given).hostname or ""
        if not is_loopback(host) and host != urlsplit(settings.console_url or "").hostname:
            raise ValueError(
                f"its host is not that of {PREFIX}CONSOLE_URL, and the console takes no other"
            )
        return given
    if settings.console_url is None:
        raise ValueError(f"it is not set, and neither is {PREFIX}CONSOLE_URL")
    return check_redirect_url(settings.console_url + CALLBACK_PATH)
