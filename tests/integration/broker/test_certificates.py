"""The tests' own certificates, by the rules that Python checks from 3.13 on."""

import ssl
from pathlib import Path

import pytest

from tests.integration.broker.certificates import Authority


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Let both ends agree, in memory; raises what the client finds wrong."""
    upwards, downwards = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(downwards, upwards, server_hostname=host),
        server.wrap_bio(upwards, downwards, server_side=True),
    ]
    while ends:
        try:
            ends[0].do_handshake()
        except ssl.SSLWantReadError:
            ends.reverse()
        else:
            ends.pop(0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def strict(authority: Authority) -> ssl.SSLContext:
    """Return a client that checks as Python 3.13 does by itself."""
    context = ssl.create_default_context(cafile=str(authority.file))
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def test_they_pass_the_strict_check_of_python_3_13(
    authority: Authority, strict: ssl.SSLContext
) -> None:
    shake_hands(strict, authority.server_context("127.0.0.1"), "127.0.0.1")


@pytest.mark.parametrize(
    ("host", "days", "words"), [("127.0.0.2", 1, "mismatch"), ("127.0.0.1", -1, "expired")]
)
def test_the_strict_check_still_finds_what_is_wrong(
    authority: Authority, strict: ssl.SSLContext, host: str, days: int, words: str
) -> None:
    server = authority.server_context(host, days=days)

    with pytest.raises(ssl.SSLCertVerificationError, match=words):
        shake_hands(strict, server, "127.0.0.1")
