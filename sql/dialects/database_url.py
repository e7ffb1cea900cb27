"""Parses the database URL; error messages never contain its password."""

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from sql.dialects.server_url import check_server_url
from sql.dialects.supported import SUPPORTED


def parse(url: str) -> URL:
    """Return a database URL in its parts.

    Raises:
        ValueError: this is not a URL, it names an unsupported database, or it has arguments that
            are not allowed.

    """
    scheme = url.partition("://")[0] if "://" in url else "no scheme"
    dialect = next((one for one in SUPPORTED if one.url_start.startswith(f"{scheme}://")), None)
    if dialect is None:
        starts = " or ".join(one.url_start for one in SUPPORTED)
        raise ValueError(f"expected the database URL to begin with {starts}, got: {scheme[:40]}")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The library's messages contain the URL, and so the password.
        raise ValueError(
            f"expected the database URL to be {dialect.url_form}, "
            f"got: {scheme}://… that cannot be read (is a character of the password not quoted?)"
        ) from None
    if not parsed.database or parsed.database == ":memory:":
        what = "a file" if dialect.is_embedded else "a database"
        raise ValueError(
            f"expected the database URL to name {what}, got: "
            f"{parsed.set(query={}).render_as_string(hide_password=True)}"
        )
    if not dialect.is_embedded:
        try:
            check_server_url(url)
        except ValueError as error:
            form = f"expected the database URL to be {dialect.url_form}"
            raise ValueError(f"{form}, got one that is not: {error}") from None
    return parsed
