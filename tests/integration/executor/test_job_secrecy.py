"""No job finds a secret of ours, wherever it looks; the spy is shown to find what is there."""

import secrets
from pathlib import Path

import pytest

from tests.support.spy import spy_on_executor


@pytest.fixture
def secret() -> str:
    return f"hush-{secrets.token_hex(16)}"


def test_no_job_finds_a_setting_of_its_executor(tmp_path: Path, secret: str) -> None:
    found = spy_on_executor(
        tmp_path,
        {
            "WARREN_SECRET": secret,
            "WARREN_BROKER_URL": f"amqp://executor:{secret}@127.0.0.1/",
            "WARREN_SOMETHING_NEW": secret,
            "CREDENTIALS_DIRECTORY": f"/run/{secret}",
        },
    )

    assert found["kept"] == secret
    assert found["any environment"] == found["any command line"] == []
    assert not found["own memory"]
    assert not found["own environment"]
    assert secret not in found["script"]
    assert "PATH=" in found["script"]


def test_a_job_can_neither_read_nor_trace_executor_and_zygote(tmp_path: Path) -> None:
    found = spy_on_executor(tmp_path, {})

    assert found["environments"] == ["PermissionError"] * 2
    assert found["memories"] == ["PermissionError"] * 2
    assert found["descriptors"] == [False, False]
    assert found["traced"] == [False, False]


def test_the_spy_finds_what_is_there(tmp_path: Path, secret: str) -> None:
    found = spy_on_executor(tmp_path, {"SOMETHING_ELSE": secret})

    assert found["own environment"]
    assert found["own memory"]
    assert found["any environment"]
    assert secret in found["script"]
