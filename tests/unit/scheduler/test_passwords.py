"""Which passwords are accepted, and how they are kept."""

import time

import pytest

from scheduler.passwords import check_password, hash_password, is_password

GOOD = "correct horse"


@pytest.mark.parametrize(
    "password", ["8 digits", "x" * 200, "пароль-пароль", "   spaces   ", "\t\0 a b c"]
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
