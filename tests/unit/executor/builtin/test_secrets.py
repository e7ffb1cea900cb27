"""Secrets in params of jobs without code: filled in by name, and masked wherever they turn up."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from warren.executor.builtin.secrets import Secrets
from warren.executor.handlers.context import JobFailed

VALUE = 'p"ä s/s&'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets"
    path.write_text(f"# tokens\n\nAPI_TOKEN={VALUE}\nlonger.one={VALUE}-and-more\nempty=\n")
    return path


def test_secrets_are_filled_in_by_name_wherever_texts_are(file: Path) -> None:
    secrets = Secrets.read(str(file))
    assert not secrets.were_used

    filled = secrets.fill({"a": ["Bearer {secret:API_TOKEN}", 7, None], "b": "{x} {secret:empty}"})

    assert filled == {"a": [f"Bearer {VALUE}", 7, None], "b": "{x} "}
    assert secrets.were_used


@pytest.mark.parametrize(
    "form", [VALUE, quote(VALUE), quote(VALUE, safe=""), json.dumps(VALUE)[1:-1], repr(VALUE)[1:-1]]
)
def test_what_repeats_a_secret_is_masked_in_each_of_its_forms(file: Path, form: str) -> None:
    assert Secrets.read(str(file)).mask(f"<{form}>") == "<***>"


def test_the_longer_of_two_secrets_is_masked_whole(file: Path) -> None:
    assert Secrets.read(str(file)).mask(f"{VALUE}-and-more") == "***"


def test_a_secret_that_is_not_there_is_named_and_final(file: Path) -> None:
    for path, words in ((str(file), "WARREN_JOB_SECRETS"), ("", "which is not set")):
        with pytest.raises(JobFailed, match=f"there is no secret 'x' in .*{words}") as refused:
            Secrets.read(path).fill("{secret:x}")
        assert not refused.value.retry


def test_a_file_that_cannot_be_read_is_told_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    with pytest.raises(JobFailed, match="cannot read WARREN_JOB_SECRETS: No such file"):
        Secrets.read(str(path))
    path.write_text("A=1\nhunter2\n")
    with pytest.raises(JobFailed, match="expected line 2 of WARREN_JOB_SECRETS to be NAME=value"):
        Secrets.read(str(path))
