"""Refuses unencrypted connections across a network unless a setting allows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from warren.broker.loopback import is_loopback

DATABASE, BROKER = "database", "broker"
LINKS = (DATABASE, BROKER)


class Services(Protocol):
    """The settings that matter here."""

    @property
    def database_url(self) -> str | None:
        """The database's URL."""

    @property
    def broker_url(self) -> str | None:
        """The broker's URL, or several separated by commas."""

    @property
    def allow_plaintext(self) -> str | None:
        """The links that may be unencrypted, separated by commas."""


@dataclass(frozen=True, slots=True)
class OpenLink:
    """A link that others on the network can read and change: its kind and host."""

    link: str
    host: str


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
    database, brokers = settings.database_url or "", (settings.broker_url or "").split(",")
    plain = [] if _is_verified(database) else [OpenLink(DATABASE, _host(database))]
    plain += [
        OpenLink(BROKER, _host(url))
        for url in map(str.strip, brokers)
        if urlsplit(url).scheme == "amqp"
    ]
    return [one for one in plain if one.host and not is_loopback(one.host)]


def allowed_links(settings: Services) -> list[OpenLink]:
    """Return the open links that the settings allow."""
    allowed = {link.strip() for link in (settings.allow_plaintext or "").split(",")}
    return [one for one in open_links(settings) if one.link in allowed]


def in_plain_text(settings: Services, link: str) -> str:
    """Return a warning if others on the network can read a link, else nothing."""
    hosts = [one.host for one in allowed_links(settings) if one.link == link]
    return f"; unencrypted to {', '.join(hosts)}, as WARREN_ALLOW_PLAINTEXT allows" if hosts else ""


def plaintext_problems(settings: Services, origins: Mapping[str, str]) -> list[str]:
    """Return a line for each open link that is not allowed.

    `origins` has the name of each link's setting.
    """
    wanted = {DATABASE: "?ssl_ca=FILE at the end", BROKER: "amqps://"}
    refused = [one for one in open_links(settings) if one not in allowed_links(settings)]
    return [
        f"{origins[one.link]}: expected {wanted[one.link]}, as {one.host} is not this machine: "
        f"others could read passwords and params (WARREN_ALLOW_PLAINTEXT={one.link} lets them)"
        for one in refused
    ]


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _is_verified(database_url: str) -> bool:
    """Return whether the server must present a certificate of a given authority."""
    asked = parse_qs(urlsplit(database_url).query)
    return "ssl_ca" in asked or "ssl_capath" in asked
