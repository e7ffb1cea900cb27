"""What a gateway needs is said in a line each before anything is started."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from warren.broker.memory import MemoryBroker
from warren.command_line.check import check_gateway
from warren.errors import SettingsError
from warren.settings.settings import Settings
from warren.wiring.gateway import make_gateway

TOKENS = "shop: a-token-of-one-app\nmails: a-token-of-another"
KEY = "k" * 64


def problems_of(tmp_path: Path, **values: Any) -> list[str]:
    settings = Settings(state_dir=tmp_path, **values)
    with pytest.raises(SettingsError) as caught:
        make_gateway(settings, MemoryBroker().transport())
    return list(caught.value.lines)


def test_both_settings_are_asked_for_at_once(tmp_path: Path) -> None:
    problems = problems_of(tmp_path)

    assert [line.partition(":")[0] for line in problems] == [
        "WARREN_GATEWAY_TOKENS",
        "WARREN_GATEWAY_ALLOW",
    ]


@pytest.mark.parametrize("values", [{}, {"app_secret": KEY}])
def test_key_of_each_app_is_asked_for(tmp_path: Path, values: dict[str, str]) -> None:
    problems = problems_of(tmp_path, gateway_tokens=TOKENS, gateway_allow="jobs", **values)

    [line] = problems
    assert line.startswith("WARREN_GATEWAY_TOKENS: expected app shop to have its key")
    assert line.endswith("`warren secrets app shop` prints it")


@pytest.mark.parametrize(
    ("tokens", "values"),
    [
        (f"shop: a-token-of-one-app {KEY}", {}),
        ("shop: a-token-of-one-app", {"app_secret": KEY}),
        (TOKENS, {"secret": "s" * 32}),
    ],
)
def test_keys_come_from_the_list_or_from_the_settings(
    tmp_path: Path, tokens: str, values: dict[str, str]
) -> None:
    settings = Settings(state_dir=tmp_path, gateway_tokens=tokens, gateway_allow="jobs", **values)

    with capture_logs():
        assert make_gateway(settings, MemoryBroker().transport()) is not None


def test_check_names_the_apps_that_would_be_served() -> None:
    settings = Settings(gateway_tokens=TOKENS, gateway_allow="jobs", secret="s" * 32)

    assert check_gateway(settings) == "serves mails, shop"


def test_check_names_all_that_is_missing() -> None:
    with pytest.raises(SettingsError) as caught:
        check_gateway(Settings())

    assert [line.partition(":")[0] for line in caught.value.lines] == [
        "WARREN_GATEWAY_TOKENS",
        "WARREN_GATEWAY_ALLOW",
    ]
