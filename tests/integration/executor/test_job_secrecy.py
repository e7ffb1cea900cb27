"""No job finds a secret of ours, wherever it looks; the spy is shown to find what is there."""

import secrets
from pathlib import Path

import pytest

from tests.support.first_process import AS_FIRST, require_namespaces
from tests.support.spy import spy_on_executor

#: A shell that waits for the executor, as a process like tini does.
SHELL = ("sh", "-c", '"$@"; exit $?', "sh")


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


def test_no_job_finds_a_setting_of_an_executor_that_is_process_1(
    tmp_path: Path, secret: str
) -> None:
    require_namespaces()

    found = spy_on_executor(tmp_path, {"WARREN_SECRET": secret}, outside=AS_FIRST)

    assert found["executor"] == 1
    assert found["kept"] == secret
    assert found["any environment"] == found["any command line"] == []
    assert found["environments"] == found["memories"] == ["PermissionError"] * 2


def test_a_process_around_the_executor_gives_away_what_is_in_its_environment(
    tmp_path: Path, secret: str
) -> None:
    require_namespaces()

    found = spy_on_executor(tmp_path, {"WARREN_SECRET": secret}, outside=AS_FIRST, wrapper=SHELL)

    assert found["any environment"] == [1]
    assert found["executor"] != 1


def test_it_has_nothing_to_give_away_if_secrets_are_in_files(tmp_path: Path, secret: str) -> None:
    require_namespaces()
    file = tmp_path / "secret"
    file.write_text(secret)
    file.chmod(0o400)

    found = spy_on_executor(
        tmp_path, {"WARREN_SECRET_FILE": str(file)}, outside=AS_FIRST, wrapper=SHELL
    )

    assert found["kept"] == secret
    assert found["any environment"] == []
