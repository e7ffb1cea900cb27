"""Database URLs are refused in words that hold no password."""

import pytest

from warren.sql.dialects.database_url import parse
from warren.sql.engine import Database


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://warren:p%40ss@db.example:3307/warren?ssl_ca=%2Fetc%2Fca.pem",
        "mysql+pymysql://warren@localhost/warren",
        "mysql+pymysql://warren@db/warren?charset=utf8mb4&ssl_capath=a&ssl_cert=b&ssl_key=c",
        "mysql+pymysql://warren@localhost/warren?unix_socket=mysqld.sock",
        "postgresql+psycopg://warren:p%40ss@db.example:5433/warren?sslrootcert=%2Fetc%2Fca.pem",
        "postgresql+psycopg://warren@localhost/warren?sslmode=verify-full",
        "postgresql+psycopg://warren@localhost/warren?unix_socket=folder",
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
        ("mysql+pymysql://u:hunter2@localhost/d?host=127.0.0.9", "unknown argument 'host', known"),
        ("mysql+pymysql://u:hunter2@localhost/d?%68ost=127.0.0.9", "unknown argument 'host'"),
        ("mysql+pymysql://u:hunter2@h/d?charset=x&port=3307", "unknown argument 'port'"),
        ("mysql+pymysql://u@h/d?unix_socket=hunter2", "goes with the host localhost only"),
        ("mysql+pymysql://u@h/d?read_default_file=hunter2", "unknown argument 'read_default_file'"),
        ("mysql+pymysql://u@h/d?plugin=hunter2", "unknown argument 'plugin'"),
        ("mysql+pymysql://u@h/d?ssl_ca=f&ssl_disabled=1", "unknown argument 'ssl_disabled'"),
        ("mysql+pymysql://u@h/d?ssl_ca=f&ssl_verify_cert=false", "argument 'ssl_verify_cert'"),
        ("mysql+pymysql://u@h/d?ssl_ca=f&ssl_verify_cert=true", "argument 'ssl_verify_cert'"),
        ("mysql+pymysql://u@h/d?ssl_ca=f&ssl_verify_identity=true", "'ssl_verify_identity'"),
        ("mysql+pymysql://u@h/d?ssl_ca=f&ssl_check_hostname=false", "'ssl_check_hostname'"),
        ("mysql+pymysql://u@h/d?ssl_key_password=hunter2", "argument 'ssl_key_password'"),
        ("mysql+pymysql://u@h/d?ssl_caa=f", "unknown argument 'ssl_caa', did you mean 'ssl_ca'?"),
        ("mysql+pymysql://u@h/d?ssl_ca=f&ssl_ca=g", "the argument 'ssl_ca' occurs twice"),
        ("mysql+pymysql://u:hunter2@localhost/d?ssl_ca=", "the argument 'ssl_ca' is empty"),
        ("postgresql+psycopg://u@localhost/d?sslrootcert=", "argument 'sslrootcert' is empty"),
        ("mysql+pymysql://localhost:1/hunter2@h/d", "a special character is not quoted"),
        ("mysql+pymysql://u:a@hunter2@h/d", "a special character is not quoted"),
        ("postgresql+psycopg://u:a@hunter2@h/d", "a special character is not quoted"),
        ("mysql+pymysql://localhost:1/d?charset=hunter2@h/d", "a special character is not quoted"),
        ("mysql+pymysql://u@localhost/d?charset=a#&host=hunter2", "character is not quoted"),
        ("mysql+pymysql://u@local\thost/d", "a special character is not quoted"),
        ("postgresql+psycopg2://u:hunter2@h/d", r"got: postgresql\+psycopg2"),
        ("postgresql+psycopg://u:hunter2@h", "to name a database"),
        ("postgresql+psycopg://u@h/d?host=hunter2", "unknown argument 'host', known are sslcert"),
        ("postgresql+psycopg://u@h/d?ssl_ca=f", "unknown argument 'ssl_ca'"),
        ("postgresql+psycopg://u@h/d?sslmode=prefer", "expected sslmode to be require or verify-f"),
        ("postgresql+psycopg://u@h/d?sslmode=verify-ca", "expected sslmode to be require or"),
        ("postgresql+psycopg://u@h/d?service=hunter2", "unknown argument 'service'"),
        ("postgresql+psycopg://u@h/d?options=-c%20x=hunter2", "unknown argument 'options'"),
        ("postgresql+psycopg://u:hunter2@h,i/d", "each server needs a URL of its own"),
        (
            "postgresql+psycopg://u:hunter2@h/d,mysql+pymysql://u:hunter2@h/d",
            "the servers of one database are of one kind",
        ),
        ("sqlite://", "to name a file"),
        ("sqlite:///:memory:", "to name a file"),
        ("sqlite://host/hunter2", "an SQLite database needs a path"),
    ],
)
def test_another_url_is_refused_without_its_password(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Database(url).close()

    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
