"""The list of apps and tokens is refused for what is wrong in it, without showing a token."""

import pytest

from warren.executor.gateway.allow_list import AccessTokens

TOKEN, OTHER = "a-token-of-one-app", "a-token-of-another"
KEY = "k" * 64


def test_apps_have_their_tokens_and_perhaps_their_keys() -> None:
    tokens = AccessTokens.parse(f"# list\n\nshop: {TOKEN} {KEY}  # with a key\nmails: {OTHER}\n")

    assert tokens.apps_of(TOKEN) == {"shop"}
    assert tokens.apps_of(OTHER) == {"mails"}
    assert tokens.keys == {"shop": KEY}
    assert TOKEN not in repr(tokens)
    assert KEY not in repr(tokens)


def test_a_token_may_contain_what_begins_a_comment_elsewhere() -> None:
    tokens = AccessTokens.parse(f"#list\nshop: {TOKEN}#Winter {KEY}\t#{OTHER}")

    assert tokens.apps_of(f"{TOKEN}#Winter") == {"shop"}
    assert tokens.apps_of(TOKEN) == frozenset()
    assert tokens.keys == {"shop": KEY}


def test_token_of_several_apps_speaks_for_each() -> None:
    tokens = AccessTokens.parse(f"shop: {TOKEN}\nmails: {TOKEN}")

    assert tokens.apps_of(TOKEN) == {"shop", "mails"}


@pytest.mark.parametrize(
    "token", ["", "default_token", TOKEN[:-1], TOKEN + "x", "\udcff", "é" * 20]
)
def test_other_token_speaks_for_none(token: str) -> None:
    assert AccessTokens.parse(f"shop: {TOKEN}").apps_of(token) == frozenset()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it lists no app"),
        ("# nothing", "it lists no app"),
        (f"shop {TOKEN}", "line 1: expected `app: token`"),
        ("shop:", "line 1: expected `app: token`"),
        (f"shop: {TOKEN} {KEY} more", "line 1: expected `app: token`"),
        (f"Shop: {TOKEN}", "line 1: expected app to be"),
        ("shop: default_token", "line 1: the token of app shop is the one that everybody knows"),
        ("shop: short", "line 1: expected the token of app shop to be 16 ASCII characters"),
        (f"shop: {TOKEN}é", "line 1: expected the token of app shop to be 16 ASCII characters"),
        (f"shop: {TOKEN} short", "line 1: expected the key of app shop"),
        (f"shop: {TOKEN}\nshop: {OTHER}", "line 2: app shop is there twice"),
    ],
)
def test_list_with_a_mistake_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        AccessTokens.parse(text)

    assert TOKEN not in str(caught.value)
