"""Parses the database URL; error messages never contain its password."""

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from warren.sql.dialects.url_forms import FORMS, check_alike, form_of, listed


def parse(url: str) -> URL:
    """Return a database URL in its parts.

    Raises:
        ValueError: this is not a URL, it names an unsupported database, or it has arguments that
            are not allowed.

    """
    form = form_of(url)
    if form is None:
        scheme = url.partition("://")[0] if "://" in url else "no scheme"
        starts = " or ".join(form.start for form in FORMS)
        raise ValueError(f"expected the database URL to begin with {starts}, got: {scheme[:40]}")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The library's messages contain the URL, and so the password.
        raise ValueError(
            f"expected the database URL to be {form.whole}, got: {form.scheme}://… "
            "that cannot be read (is a character of the password not quoted?)"
        ) from None
    if not parsed.database or parsed.database == ":memory:":
        what = "a file" if form.is_embedded else "a database"
        raise ValueError(
            f"expected the database URL to name {what}, got: "
            f"{parsed.set(query={}).render_as_string(hide_password=True)}"
        )
    try:
        form.check(url)
    except ValueError as error:
        wanted = f"expected the database URL to be {form.whole}"
        raise ValueError(f"{wanted}, got one that is not: {error}") from None
    return parsed


def parse_all(urls: str) -> list[URL]:
    """Return the URLs of a database's servers, which commas separate; usually it is one.

    Raises:
        ValueError: one of them is wrong, or they are not of one database.

    """
    each = listed(urls)
    parsed = [parse(url) for url in each]
    if len(each) > 1:
        check_alike(each)
    return parsed
