"""How the URL of each supported database looks; a port adds its form here.

Needs no library: settings are read where SQLAlchemy is not installed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from warren.sql.dialects.mysql_url import check_mysql_url


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
        """What is before the `://`."""
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
    return next((one for one in FORMS if separator and one.scheme == scheme), None)
