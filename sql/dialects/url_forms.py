"""The form of each supported database's URL; a port adds its own here.

The URL of a server is checked, so that there is no doubt where a connection goes. Nothing here
needs a library: settings are read where SQLAlchemy is not installed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

#: Names a server on this machine, so its host must be `localhost`.
SOCKET = "unix_socket"
#: Arguments that neither name another server nor weaken how its certificate is verified.
_MYSQL_ARGUMENTS = ("charset", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_cipher", "ssl_key", SOCKET)
_POSTGRESQL_ARGUMENTS = ("sslcert", "sslkey", "sslmode", "sslrootcert", SOCKET)
#: What `sslmode` may be: others go on without TLS, or with a server of another name.
SSL_MODES = ("require", "verify-full")


def _check_server_url(arguments: Sequence[str], url: str) -> None:
    """Check the arguments of a URL, and that its host is unambiguous.

    Raises:
        ValueError: an argument is not one of these, or a special character is not quoted. The
            message holds no part of a password.

    """
    parts = urlsplit(url)
    # To SQLAlchemy a / or ? before an @ is part of the password, what follows the first @ is the
    # host, and there are no fragments.
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    if not url.isprintable() or "#" in url or "@" in password + parts.path + parts.query:
        raise ValueError("a special character is not quoted; write %23 for #, %2F for /, %40 for @")
    check_one_host(url)
    values = parse_qsl(parts.query, keep_blank_values=True)
    names = [name for name, _ in values]
    for name, value in values:
        if name not in arguments:
            similar = get_close_matches(name, arguments, 1)
            known = f"known are {', '.join(arguments)}"
            hint = f"did you mean {similar[0]!r}?" if similar else known
            raise ValueError(f"unknown argument {name[:40]!r}, {hint}")
        if name == SOCKET and parts.hostname != "localhost":
            raise ValueError(f"{SOCKET} goes with the host localhost only")
        if names.count(name) > 1:
            raise ValueError(f"the argument {name!r} occurs twice")
        if not value:
            raise ValueError(f"the argument {name!r} is empty")
        if name == "sslmode" and value not in SSL_MODES:
            raise ValueError(f"expected sslmode to be {' or '.join(SSL_MODES)}")


def check_one_host(url: str) -> None:
    """Check that a URL names one server.

    Raises:
        ValueError: a comma is in its host or path; the message holds no part of a password.

    """
    if "," in url.rpartition("@")[2].partition("?")[0]:
        raise ValueError("each server needs a URL of its own, as in mysql+pymysql://…,mysql+…")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlForm:
    """The form of one kind of database's URLs.

    `check(url)` raises ValueError, whose message holds no part of a password, for a URL that it
    would be unsafe or useless to connect to.
    """

    #: The beginning of a URL, with the driver, and the form of a whole one.
    start: str
    whole: str
    #: Whether it names a file, and no server.
    is_embedded: bool
    check: Callable[[str], None]
    #: The port of a server whose URL names none, and the arguments that name the authority which
    #: has signed its certificate: with one of them, certificate and name are verified.
    port: int = 0
    authorities: Sequence[str] = ()
    #: The extra that its driver is installed with; without one, the driver comes with `server`.
    extra: str = ""

    @property
    def driver(self) -> str:
        """The module of its driver."""
        return self.scheme.partition("+")[2]

    @property
    def scheme(self) -> str:
        """The part before the `://`."""
        return self.start.partition("://")[0]


def _check_file_url(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    if path in ("", url) or ":memory:" in path:
        raise ValueError("an SQLite database needs a path")


MYSQL = UrlForm(
    start="mysql+pymysql://",
    whole="mysql+pymysql://user:password@host:port/name",
    is_embedded=False,
    check=partial(_check_server_url, _MYSQL_ARGUMENTS),
    port=3306,
    authorities=("ssl_ca", "ssl_capath"),
)
POSTGRESQL = UrlForm(
    start="postgresql+psycopg://",
    whole="postgresql+psycopg://user:password@host:port/name",
    is_embedded=False,
    check=partial(_check_server_url, _POSTGRESQL_ARGUMENTS),
    port=5432,
    authorities=("sslrootcert",),
    extra="postgresql",
)
SQLITE = UrlForm(
    start="sqlite:///", whole="sqlite:///path", is_embedded=True, check=_check_file_url
)
FORMS = (MYSQL, POSTGRESQL, SQLITE)


def form_of(url: str) -> UrlForm | None:
    """Return the form that a URL has by its scheme; None if no supported database has it."""
    scheme, separator, _ = url.partition("://")
    return next((form for form in FORMS if separator and form.scheme == scheme), None)


#: A comma that a URL follows; others may be in a password.
_NEXT_URL = re.compile(r",(?=\s*[a-z0-9+]+://)")


def listed(urls: str) -> list[str]:
    """Return the URLs of the servers of one database, which commas separate."""
    return [url.strip() for url in _NEXT_URL.split(urls)]


def name_of(url: str) -> str:
    """Return what names a server in messages: its host and port, or its socket; no password.

    Raises:
        ValueError: that cannot be told apart from the user and the password.

    """
    form = form_of(url)
    if form is None or form.is_embedded:
        return url.partition("://")[0][:20] + "://…"
    parts = urlsplit(url)
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("a special character is not quoted")
    if "@" not in parts.netloc:
        parts.port  # noqa: B018 - it raises if a user and a password are in its place
    place = parts.netloc.rpartition("@")[2].lower()
    if ":" not in place.rpartition("]")[2]:
        place += f":{form.port}"
    return dict(parse_qsl(parts.query)).get(SOCKET) or place


def is_local(host: str) -> bool:
    """Whether what goes to a host stays within this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_alike(urls: Sequence[str]) -> None:
    """Check that the URLs can be servers of one database.

    Raises:
        ValueError: they cannot; the message holds no part of a password.

    """
    if any(form is None or form.is_embedded for form in map(form_of, urls)):
        raise ValueError("only servers can be listed, not a file")
    if len({urlsplit(url).scheme for url in urls}) > 1:
        raise ValueError("the servers of one database are of one kind")
    names = list(dict.fromkeys(urlsplit(url).path.strip("/") for url in urls))
    if len(names) > 1:
        raise ValueError(f"the URLs name different databases: {', '.join(names)[:200]}")
    places = [name_of(url) for url in urls]
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise ValueError(f"{twice} occurs twice")


def file_url(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"
