"""Which passwords are accepted, and how they are kept."""

import time

import pytest

from tests.support.cheap_parts import hash_passwords_as_always
from warren.scheduler.commands.passwords import (
    check_password,
    common_passwords,
    hash_password,
    is_password,
    password_problem,
)
from warren.scheduler.problems import Code

GOOD = "correct horse"


@pytest.fixture(autouse=True)
def _real_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_passwords_as_always(monkeypatch)


@pytest.mark.parametrize(
    "password",
    [
        "8 digits",
        "x" * 64,
        "x" * 200,
        "пароль-пароль",
        "密码密码密码密码",
        "   spaces   ",
        " password ",
        "\t\0 a b c",
    ],
)
def test_long_enough_is_good_enough(password: str) -> None:
    check_password(password, "alice")


@pytest.mark.parametrize(
    ("password", "words"),
    [
        ("", "8 to 200 characters, it has 0"),
        ("hush-17", "8 to 200 characters, it has 7"),
        ("x" * 201, "8 to 200 characters, it has 201"),
        ("alice.cooper", "not to be the user's name"),
        ("Alice.Cooper", "not to be the user's name"),
        ("hush hush\udcff", "UTF-8"),
    ],
)
def test_others_are_refused_and_not_repeated(password: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        check_password(password, "alice.cooper")

    assert "hush" not in str(refused.value)


def test_the_three_thousand_passwords_that_people_use_most_are_refused() -> None:
    common = common_passwords()

    assert len(common) > 3_000
    assert {"password", "123456789", "iloveyou", "1qaz2wsx"} <= common
    assert {password_problem(password, "alice.cooper") for password in common} == {Code.WEAK_COMMON}


@pytest.mark.parametrize("password", ["Password", "PASSWORD1", "QwertyUiop"])
def test_capitals_make_a_common_password_no_better(password: str) -> None:
    with pytest.raises(ValueError, match="not to be a common one") as refused:
        check_password(password, "alice.cooper")

    assert password not in str(refused.value)


@pytest.mark.parametrize(
    "password", ["   spaces   ", "пароль-пароль", "密码密码密码密码", "x" * 64]
)
def test_what_is_kept_is_what_was_typed(password: str) -> None:
    kept = hash_password(password)

    assert is_password(kept, password)
    assert not is_password(kept, f"{password} ")
    assert not is_password(kept, password[:-1])


def test_a_password_is_known_again_and_no_other() -> None:
    kept = hash_password(GOOD)

    assert is_password(kept, GOOD)
    assert not is_password(kept, f"{GOOD} ")
    assert not is_password(kept, "")


def test_what_is_kept_says_how_and_never_twice_the_same() -> None:
    one, two = hash_password(GOOD), hash_password(GOOD)

    assert one.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert one != two
    assert len(one) <= 255


@pytest.mark.parametrize("kept", ["", "e10adc3949ba59abbe56e057f20f883e", "$argon2id$broken"])
def test_what_is_no_hash_of_ours_fits_no_password(kept: str) -> None:
    assert not is_password(kept, "123456")


def test_a_guess_costs_time() -> None:
    kept = hash_password(GOOD)
    began = time.process_time()

    is_password(kept, "a guess")

    assert time.process_time() - began > 0.005
