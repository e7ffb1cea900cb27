"""The form of each supported database's URL; a port adds its own here.

A URL of MySQL or MariaDB is checked, so that there is no doubt where a connection goes. Nothing
here needs a library: settings are read where SQLAlchemy is not installed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

#: Names a server on this machine, so its host must be `localhost`.
SOCKET = "unix_socket"
#: Arguments that neither name another server nor weaken how its certificate is verified.
ARGUMENTS = ("charset", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_cipher", "ssl_key", SOCKET)


def check_mysql_url(url: str) -> None:
    """Check the arguments of a URL, and that its host is unambiguous.

    Raises:
        ValueError: an argument is not in ARGUMENTS, or a special character is not quoted. The
            message holds no part of a password.

    """
    parts = urlsplit(url)
    # To SQLAlchemy a / or ? before an @ is part of the password, and there are no fragments.
    if not url.isprintable() or "#" in url or "@" in parts.path + parts.query:
        raise ValueError("a special character is not quoted; write %23 for #, %2F for /, %40 for @")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    for name in names:
        if name not in ARGUMENTS:
            similar = get_close_matches(name, ARGUMENTS, 1)
            known = f"known are {', '.join(ARGUMENTS)}"
            hint = f"did you mean {similar[0]!r}?" if similar else known
            raise ValueError(f"unknown argument {name[:40]!r}, {hint}")
        if name == SOCKET and parts.hostname != "localhost":
            raise ValueError(f"{SOCKET} goes with the host localhost only")
        if names.count(name) > 1:
            raise ValueError(f"the argument {name!r} occurs twice")


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
    check=check_mysql_url,
)
SQLITE = UrlForm(
    start="sqlite:///", whole="sqlite:///path", is_embedded=True, check=_check_file_url
)
FORMS = (MYSQL, SQLITE)


def form_of(url: str) -> UrlForm | None:
    """Return the form that a URL has by its scheme; None if no supported database has it."""
    scheme, separator, _ = url.partition("://")
    return next((form for form in FORMS if separator and form.scheme == scheme), None)


def file_url(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"
