"""Database URLs are refused in words that hold no password."""

import pytest

from sql.dialects.database_url import parse
from sql.engine import Database


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://warren:p%40ss@db.example:3307/warren?ssl_ca=%2Fetc%2Fca.pem",
        "mysql+pymysql://warren@localhost/warren",
        "sqlite:////var/lib/warren/warren.db",
        "sqlite:///warren.db",
    ],
)
def test_a_supported_url_is_read(url: str) -> None:
    assert parse(url).render_as_string(hide_password=False) == url


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "expected the database URL to begin with .*, got: no scheme"),
        ("warren", "got: no scheme"),
        ("/var/lib/warren.db", "got: no scheme"),
        ("postgresql://u:hunter2@h/d", "got: postgresql"),
        ("mysql://u:hunter2@h/d", "got: mysql"),
        ("mysql+mysqldb://u:hunter2@h/d", r"got: mysql\+mysqldb"),
        ("mysql+pymysql://u:hunter2@h:port/d", "cannot be read"),
        ("mysql+pymysql://u:hunter2@h", "to name a database"),
        ("mysql+pymysql://u:hunter2@h/?password=hunter2", "to name a database"),
        ("sqlite://", "to name a file"),
        ("sqlite:///:memory:", "to name a file"),
    ],
)
def test_another_url_is_refused_without_its_password(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Database(url)

    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
