"""Whether a browser that is opened is seen by the user."""

import sys

import pytest

from warren.settings.settings import has_browser

EVERY = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a screen")
@pytest.mark.parametrize(
    ("env", "is_seen"),
    [
        ({}, False),
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, False),
        ({"BROWSER": "firefox", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, True),
    ],
)
def test_a_browser_is_opened_where_the_user_sees_it(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], is_seen: bool
) -> None:
    for name in EVERY:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert has_browser() is is_seen
