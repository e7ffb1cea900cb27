"""A MariaDB with TLS: an authority in the URL means that certificate and name are verified."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.integration.broker.certificates import Authority
from tests.support.mariadb import PrivateMariaDB
from tests.support.server_words import only_mysql
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable

pytestmark = only_mysql


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def serve(own_mariadb: PrivateMariaDB, authority: Authority) -> Callable[..., str]:
    """What starts the server again with another certificate, and returns a database's URL."""

    def start(host: str, *, days: int = 1) -> str:
        file = authority.server_file(host, days=days)
        own_mariadb.stop()
        own_mariadb.options = (f"--ssl-cert={file}", f"--ssl-key={file}")
        own_mariadb.start()
        return own_mariadb.url("mysql")

    return start


def cipher(url: str) -> str:
    database = Database(url, retry_seconds=0)
    try:
        shown = text("SHOW STATUS LIKE 'Ssl_cipher'")
        return database.read(lambda session: str(session.execute(shown).one()[1]))
    finally:
        database.close()


def test_a_server_that_proves_itself_is_spoken_to_by_tls(
    serve: Callable[..., str], authority: Authority
) -> None:
    url = serve("127.0.0.1")

    assert cipher(f"{url}?ssl_ca={authority.file}").startswith("TLS_")
    assert cipher(f"{url}?ssl_ca={authority.file}&ssl_cipher=HIGH&charset=utf8mb4")
    assert not cipher(url)


@pytest.mark.parametrize(
    ("host", "days", "words"),
    [
        ("127.0.0.2", 1, "IP address mismatch"),
        ("127.0.0.1", -1, "certificate has expired"),
    ],
    ids=["another host", "expired"],
)
def test_a_server_that_cannot_prove_itself_is_refused(
    serve: Callable[..., str], authority: Authority, host: str, days: int, words: str
) -> None:
    url = serve(host, days=days)

    for more in ("", "&ssl_cipher=ALL"):
        with pytest.raises(DatabaseUnavailable, match=words):
            cipher(f"{url}?ssl_ca={authority.file}{more}")


def test_a_server_of_another_authority_is_refused(
    serve: Callable[..., str], tmp_path: Path
) -> None:
    url = serve("127.0.0.1")
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")

    with pytest.raises(DatabaseUnavailable, match="certificate verify failed"):
        cipher(f"{url}?ssl_ca={other.file}")
