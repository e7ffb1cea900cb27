"""Rules of single settings. A rule returns the value or raises ValueError.

Users see the message of the ValueError, so it never contains a secret or password.
"""

import os
import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, available_timezones

from warren.broker.destinations import Destinations
from warren.broker.messages import ScriptLanguage
from warren.broker.transport import is_loopback
from warren.executor.disk import Reserve
from warren.executor.fork_server.confinement import JobLimits
from warren.executor.gateway.allow_list import AccessTokens
from warren.resources.spelling import did_you_mean, nearest
from warren.scheduler.alarms.addresses import (
    MailServer,
    check_webhook,
    is_email,
    is_sound_secret,
)
from warren.scheduler.commands.token_text import is_whole
from warren.sql.dialects.url_forms import (
    check_alike,
    check_one_host,
    form_of,
    listed,
    name_of,
)

SECRET_LENGTH = 32
MAX_LINE = 200
TOKEN_LENGTH = 16
MEMORY_BROKER = "memory://"
#: The handlers of `warren.executor.builtin`: a module each.
BUILTIN_HANDLERS = ("http", "command")
#: Where a console serves the way back from a provider of single sign-on.
CALLBACK_PATH = "/sso/callback"
#: Stands for all users where names are listed.
EVERYBODY = "all"
_ZONE_FOLDERS = "/zoneinfo/"


def check_secret(secret: str) -> str:
    """Return a secret if it is long enough."""
    if len(secret) < SECRET_LENGTH:
        raise ValueError(f"it has {len(secret)}")
    return secret


def check_api_token(text: str) -> str:
    """Return the text of an API token if it is complete."""
    if not is_whole(text):
        raise ValueError("this is not one")
    return text


def check_metrics_token(token: str) -> str:
    """Return a token if it is long enough."""
    if len(token) < TOKEN_LENGTH:
        raise ValueError(f"it has {len(token)}")
    return token


def check_database_url(urls: str) -> str:
    """Return the URL of a supported database, or comma-separated URLs of its servers.

    Raises:
        ValueError: with a line for each of them that is wrong.

    """
    each = listed(urls)
    if len(each) == 1:
        return _one_database_url(urls)
    faults = []
    for number, url in enumerate(each, start=1):
        try:
            _one_database_url(url)
        except ValueError as error:
            faults.append(f"URL {number}{_of_server(url)}: {error}")
    if faults:
        raise ValueError(*faults)
    check_alike(each)
    return urls


def _of_server(url: str) -> str:
    try:
        return f" ({name_of(url)[:100]})"
    except ValueError:
        return ""


def _one_database_url(url: str) -> str:
    form = form_of(url)
    if form is None:
        scheme, _, rest = url.partition("://")
        raise ValueError(f"it begins with {scheme[:20]!r}" if rest else "it has no ://")
    if not form.is_embedded:
        check_one_host(url)
        parts = _split(url)
        if not parts.hostname or not parts.path.strip("/"):
            raise ValueError("the host or the database's name is missing")
    form.check(url)
    return url


def check_broker_url(urls: str) -> str:
    """Return the URL, or comma-separated URLs, of a supported broker."""
    if urls == MEMORY_BROKER:
        return urls
    for url in urls.split(","):
        parts = _split(url.strip())
        if parts.scheme not in ("amqp", "amqps"):
            raise ValueError(f"{parts.scheme or 'nothing'}:// is no broker's scheme")
        if not parts.hostname:
            raise ValueError("the host is missing")
    # A boot uses one account of the broker, even after it switches to another URL.
    if len({_split(url.strip()).username for url in urls.split(",")}) > 1:
        raise ValueError("the URLs name different users")
    return urls


def check_management_url(url: str) -> str:
    """Return the URL of the broker's management API."""
    parts = _split(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{parts.scheme or 'nothing'}:// is not http:// or https://")
    if not parts.hostname:
        raise ValueError("the host is missing")
    if parts.query or parts.fragment:
        raise ValueError("it has more than a path after the host")
    return url


def has_password(urls: str) -> bool:
    """Whether any of the comma-separated URLs has a password, or cannot be parsed."""
    try:
        return any(urlsplit(url.strip()).password for url in urls.split(","))
    except ValueError:
        return True


def check_smtp_url(url: str) -> str:
    """Return the URL of a mail server."""
    MailServer.parse(url)
    return url


def check_emails(emails: str) -> str:
    """Return comma-separated e-mail addresses, without spaces."""
    listed = [email.strip() for email in emails.split(",") if email.strip()]
    for email in listed:
        if not is_email(email):
            raise ValueError(f"{email[:100]!r} is not one")
    return ",".join(listed)


def check_alarm_secret(secret: str) -> str:
    """Return the secret of a robot; the error does not quote it."""
    if not is_sound_secret(secret):
        raise ValueError("this is not one")
    return secret


def check_webhook_url(url: str) -> str:
    """Return the URL of a webhook; the error does not quote it, because it is a secret."""
    try:
        check_webhook(url)
    except ValueError:
        raise ValueError("this is not one") from None
    return url


def check_destinations(text: str) -> str:
    """Return a comma-separated list of where webhooks, `warren.http` or the gateway may call."""
    if not Destinations.parse(text).items:
        raise ValueError("it lists none")
    return text


def check_code_version(version: str) -> str:
    """Return a version of users' code that is short enough to be stored with a run."""
    if not re.fullmatch(r"[!-~]{0,64}", version):
        raise ValueError("it has spaces or other characters, or is too long")
    return version


def check_hooks(modules: str) -> str:
    """Return the names of modules with hooks."""
    names = [name.strip() for name in modules.split(",")]
    if not all(part.isidentifier() for name in names for part in name.split(".")):
        raise ValueError("one of these is not the name of a module")
    return ",".join(names)


def check_builtin(names: str) -> str:
    """Return the names of built-in handlers, separated by commas."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if not set(wanted) <= set(BUILTIN_HANDLERS):
        raise ValueError("one of these is none")
    return ",".join(wanted)


def check_console_url(url: str) -> str:
    """Return the base URL of links to the console."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ValueError("this is not one")
    if not re.fullmatch(r"[\w./~-]*", parts.path, re.ASCII):
        raise ValueError("its path has other characters than letters, digits and . _ ~ -")
    return parts.geturl().rstrip("/")  # its scheme is in lower case now


_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")


def check_issuer(url: str) -> str:
    """Return the URL of an OpenID provider, exactly as its tokens name it."""
    parts = _https(url)
    if parts.username or parts.query or parts.fragment:
        raise ValueError("it has more than a host and a path")
    return url


def check_redirect_url(url: str) -> str:
    """Return the URL to which a provider sends browsers back."""
    parts = _https(url)
    if parts.username or parts.query or parts.fragment:
        raise ValueError("it has more than a host and a path")
    if not parts.path.endswith(CALLBACK_PATH):
        raise ValueError(f"the console serves {CALLBACK_PATH}")
    return url


def _https(url: str) -> SplitResult:
    """Return the parts of an https URL, or of an http URL of this machine."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this is not one")
    if not _VISIBLE.fullmatch(url):
        raise ValueError("it has other characters than visible ASCII, or over 255")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("http is only for this machine: others could read what passes")
    return parts


def check_client_id(text: str) -> str:
    if not _VISIBLE.fullmatch(text):
        raise ValueError("it has other characters than visible ASCII, or over 255")
    return text


def check_client_secret(secret: str) -> str:
    """Return the secret of a client; the error does not quote it."""
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("it has other characters than visible ASCII")
    return secret


def check_scopes(scopes: str) -> str:
    """Return the scopes to ask a provider for, separated by single spaces."""
    listed = scopes.split()
    if "openid" not in listed:
        raise ValueError("openid is missing")
    for scope in listed:
        if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", scope):
            raise ValueError(f"{scope[:100]!r} is not one")
    return " ".join(listed)


def check_claim(name: str) -> str:
    if not name.strip() or len(name) > MAX_LINE or not name.isprintable():
        raise ValueError("this is not one")
    return name


def check_contact(text: str) -> str:
    if not text.strip() or len(text) > MAX_LINE or not text.isprintable():
        raise ValueError
    return text.strip()


def check_local_sign_in(names: str) -> str:
    """Return `all`, or comma-separated names of users, without spaces."""
    listed = [name.strip() for name in names.split(",") if name.strip()]
    if not listed:
        raise ValueError("it names nobody")
    for name in listed:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise ValueError(f"{name[:100]!r} is no user's name")
    return ",".join(listed)


def check_heartbeat_url(url: str) -> str:
    """Return a URL that is called while the cluster works."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("this is not one")
    return url


def check_timezone(name: str) -> str:
    """Return the name of an existing time zone."""
    if not _is_timezone(name):
        near = nearest(name, available_timezones())
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"there is no such time zone{hint}")
    return name


def check_glue(languages: str) -> str:
    """Return the allowed script languages: `all`, `off`, or a comma-separated list."""
    known = [language.value for language in ScriptLanguage]
    listed = [] if languages in ("all", "off") else languages.split(",")
    for language in map(str.strip, listed):
        if language not in known:
            near = did_you_mean(language, known)
            raise ValueError(f"unknown language {language[:100]!r}{near}")
    return languages


def check_log_reserve(text: str) -> str:
    """Return how much of a disk logs must leave free."""
    Reserve.parse(text)
    return text


_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_PREFIX = re.compile(r"(/[\w.=-]+)*/?", re.ASCII)
_LONGEST_PREFIX = 100


def check_log_store(place: str) -> str:
    """Return the folder, file URL or s3 URL of a log store."""
    parts = _split(place)
    if not parts.scheme and not place.startswith("//"):
        if not place.strip():
            raise ValueError("it is empty")
        return place
    if parts.query or parts.fragment or parts.username:
        raise ValueError("it has more than a path")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.strip("/"):
            raise ValueError("a file URL has three slashes and a path")
        return place
    if parts.scheme != "s3":
        raise ValueError(f"{parts.scheme or 'nothing'}:// is neither file:// nor s3://")
    if not _BUCKET.fullmatch(parts.netloc):
        raise ValueError(f"{parts.netloc[:100]!r} is no name of a bucket")
    steps = parts.path.split("/")
    is_sound = _PREFIX.fullmatch(parts.path) and not {".", ".."} & set(steps)
    if not is_sound or len(parts.path) > _LONGEST_PREFIX:
        raise ValueError(
            f"the prefix may have up to {_LONGEST_PREFIX} letters, digits and - _ . = between "
            "slashes"
        )
    return place


def check_log_store_endpoint(url: str) -> str:
    """Return the URL of a server that speaks S3."""
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this is not one")
    if parts.username or parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError("it has more than a host and a port")
    return url.rstrip("/")


def check_region(name: str) -> str:
    """Return the name of a region of S3."""
    if not re.fullmatch(r"[a-zA-Z0-9-]{1,40}", name):
        raise ValueError("it is empty, too long, or has other characters than letters, digits, -")
    return name


def check_access_key(key: str) -> str:
    """Return a key of S3; the error does not quote it."""
    if not re.fullmatch(r"[!-~]{1,200}", key):
        raise ValueError("it is empty, too long, or has spaces")
    return key


def check_log_spool(text: str) -> str:
    """Return how much may wait to be stored."""
    if Reserve.parse(text).size >= 2**62 or " or " in text:
        raise ValueError("it is no size")
    return text


def check_job_limits(limits: str) -> str:
    """Return valid limits for job processes."""
    JobLimits.parse(limits)
    return limits


def check_gateway_tokens(text: str) -> str:
    """Return a list of apps and their tokens."""
    AccessTokens.parse(text)
    return text


def check_gateway_peers(text: str) -> str:
    """Return the comma-separated base URLs of other gateways, without spaces."""
    urls = [url.strip().rstrip("/") for url in text.split(",") if url.strip()]
    for url in urls:
        parts = _split(url)
        if parts.username is not None:
            raise ValueError("a user name or a password is in one")
        is_plain = url.isprintable() and " " not in url and not (parts.query or parts.fragment)
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
            raise ValueError(f"{url[:100]!r} is not one")
    return ",".join(urls)


def local_timezone() -> str:
    """Return this machine's IANA time zone; UTC if it is unknown or Etc/UTC."""
    for name in (os.environ.get("TZ", "").lstrip(":"), _linked_zone()):
        if _is_timezone(name):
            return "UTC" if name == "Etc/UTC" else name
    return "UTC"


def _is_timezone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _linked_zone() -> str:
    target = os.path.realpath("/etc/localtime")
    if _ZONE_FOLDERS in target:
        return target.rpartition(_ZONE_FOLDERS)[2]
    try:
        return Path("/etc/timezone").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The library's messages contain parts of the URL, and so of the password.
        raise ValueError("it cannot be read; is a character of the password not quoted?") from None
    try:
        parts.port  # noqa: B018 - reading it is the check
    except ValueError as error:
        raise ValueError("the port is not a number from 0 to 65535") from error
    return parts
