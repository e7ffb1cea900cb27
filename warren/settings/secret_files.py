"""Secrets in files, and links that must be encrypted because secrets pass through them.

The environment of a process is visible in /proc; a file has permissions. So every secret setting
can be given in a file, named by `WARREN_SECRET_FILE`, or by `secret_file` in warren.toml.

Unencrypted connections across a network are refused unless a setting allows them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from warren.broker.transport import is_loopback
from warren.sql.dialects.url_forms import form_of, listed

DATABASE, BROKER = "database", "broker"
LINKS = (DATABASE, BROKER)


class Services(Protocol):
    """The settings that name links to services."""

    @property
    def database_url(self) -> str | None:
        """The database's URL, or those of its servers separated by commas."""

    @property
    def broker_url(self) -> str | None:
        """The broker's URL, or several separated by commas."""

    @property
    def broker_management_url(self) -> str | None:
        """The URL of the broker's management API."""

    @property
    def allow_plaintext(self) -> str | None:
        """The links that may be unencrypted, separated by commas."""


@dataclass(frozen=True, slots=True)
class OpenLink:
    """A link that others on the network can read and change: its kind, host and setting."""

    link: str
    host: str
    setting: str


def check_allowed(links: str) -> str:
    """Return a comma-separated list of links that may be unencrypted.

    Raises:
        ValueError: one is unknown.

    """
    for link in filter(None, map(str.strip, links.split(","))):
        if link not in LINKS:
            raise ValueError(f"unknown link {link[:100]!r}")
    return links


def open_links(settings: Services) -> list[OpenLink]:
    """Return each link that is neither local nor encrypted to a verified server."""
    databases, brokers = listed(settings.database_url or ""), (settings.broker_url or "").split(",")
    management = settings.broker_management_url or ""
    unencrypted = [
        OpenLink(DATABASE, _host(url), "database_url") for url in databases if not _is_verified(url)
    ]
    unencrypted += [
        OpenLink(BROKER, _host(url), "broker_url")
        for url in map(str.strip, brokers)
        if urlsplit(url).scheme == "amqp"
    ]
    if urlsplit(management).scheme == "http":
        unencrypted.append(OpenLink(BROKER, _host(management), "broker_management_url"))
    return [link for link in unencrypted if link.host and not is_loopback(link.host)]


def allowed_links(settings: Services) -> list[OpenLink]:
    """Return the open links that the settings allow."""
    allowed = {link.strip() for link in (settings.allow_plaintext or "").split(",")}
    return [setting for setting in open_links(settings) if setting.link in allowed]


def in_plain_text(settings: Services, link: str) -> str:
    """Return a warning if others on the network can read a link, else nothing."""
    hosts = {setting.host: None for setting in allowed_links(settings) if setting.link == link}
    return f"; unencrypted to {', '.join(hosts)}, as WARREN_ALLOW_PLAINTEXT allows" if hosts else ""


def plaintext_problems(settings: Services, origin: Callable[[str], str]) -> list[str]:
    """Return a line for each open link that is not allowed.

    `origin` returns where a setting comes from.
    """
    authority = _authority(settings.database_url or "")
    expected = {
        "database_url": f"?{authority}=FILE at the end",
        "broker_url": "amqps://",
        "broker_management_url": "https://",
    }
    refused = [
        setting for setting in open_links(settings) if setting not in allowed_links(settings)
    ]
    return [
        f"{origin(setting.setting)}: expected {expected[setting.setting]}, "
        f"as {setting.host} is not this machine: "
        f"others could read passwords and params (WARREN_ALLOW_PLAINTEXT={setting.link} lets them)"
        for setting in refused
    ]


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _is_verified(database_url: str) -> bool:
    """Return whether the server must present a certificate from a given authority."""
    form = form_of(database_url)
    arguments = parse_qs(urlsplit(database_url).query)
    return form is not None and not arguments.keys().isdisjoint(form.authorities)


def _authority(database_urls: str) -> str:
    """Return the argument that names an authority in URLs of this kind of database."""
    form = form_of(listed(database_urls)[0])
    return form.authorities[0] if form is not None and form.authorities else ""


SUFFIX = "_file"
#: The largest file, in bytes; no secret or list of URLs comes near it.
MAX_FILE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """The content of the files: values, where each comes from, and a line for each problem."""

    values: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_secret_files(
    secrets: Collection[str], variables: Mapping[str, str], keys: Mapping[str, Any], prefix: str
) -> SecretFiles:
    """Read the files that environment `variables` and `keys` of warren.toml name.

    A variable takes precedence over a key, whether it names the file or holds the value itself. It
    is a problem if the same source gives both.
    """
    secret_files = SecretFiles()
    for name in secrets:
        variable = f"{prefix}{name.upper()}"
        in_variable, in_key = f"{variable}{SUFFIX.upper()}", f"warren.toml: {name}{SUFFIX}"
        if path := variables.get(in_variable):
            _take(
                secret_files,
                name,
                in_variable,
                path,
                doubled=variable if variables.get(variable) else "",
            )
        elif (path := keys.get(name + SUFFIX)) and not variables.get(variable):
            _take(secret_files, name, in_key, str(path), doubled=name if keys.get(name) else "")
    return secret_files


def _take(secret_files: SecretFiles, name: str, origin: str, path: str, *, doubled: str) -> None:
    secret_files.origins[name] = origin
    if doubled:
        secret_files.problems.append(f"{origin}: {doubled} is set too; leave one of them out")
        return
    try:
        secret_files.values[name] = _read(Path(path))
    except OSError as error:
        secret_files.problems.append(f"{origin}: cannot read {path!r}: {error.strerror}")
    except ValueError as error:
        secret_files.problems.append(f"{origin}: expected {path!r} to be a text file {error}")


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"of up to {MAX_FILE_BYTES:,} bytes")
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise ValueError("in UTF-8") from None
    if not text:
        raise ValueError("with the secret in it; it is empty")
    return text
