"""Keys follow from one another by HKDF, whoever computes it."""

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from warren.broker.keys import derived_key


@pytest.mark.parametrize(
    ("key", "info"), [(b"x" * 32, "app/demo"), (b"k", ""), (b"y" * 200, "é" * 300)]
)
def test_key_is_what_another_hkdf_makes_of_it(key: bytes, info: str) -> None:
    other = HKDF(algorithm=SHA256(), length=32, salt=b"warren", info=info.encode())

    assert derived_key(key, info) == other.derive(key)
