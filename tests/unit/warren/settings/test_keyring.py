"""Which keys a process takes from its settings, and what it says of what it should not have."""

import pytest
from structlog.testing import capture_logs

from warren.broker.signing import AppKeys, ClusterKeys, app_key
from warren.errors import SettingsError
from warren.settings.settings import Settings, app_keys, cluster_keys

OLD, NEW = "o" * 32, "n" * 32


def test_an_executor_uses_the_key_that_it_was_given() -> None:
    key = app_key(NEW, "reports")

    with capture_logs() as logs:
        keys = app_keys(Settings(app_secret=key), "reports")

    assert keys.of("reports") == ClusterKeys(NEW).of("reports")
    assert logs == []


def test_an_executor_that_is_given_the_master_secret_keeps_its_apps_key_only_and_says_so() -> None:
    with capture_logs() as logs:
        keys = app_keys(Settings(secret=NEW), "reports")

    assert keys.of("reports") == ClusterKeys(NEW).of("reports")
    assert keys.of("mails") == keys.of("") == ()
    assert NEW not in str(vars(keys))
    [line] = logs
    assert (line["event"], line["log_level"]) == ("master_secret_received", "warning")
    assert "warren secrets app reports" in line["reason"]


def test_its_own_key_goes_before_the_master_secret() -> None:
    with capture_logs() as logs:
        keys = app_keys(Settings(secret=OLD, app_secret=app_key(NEW, "reports")), "reports")

    assert keys.of("reports") == ClusterKeys(NEW).of("reports")
    assert [line["event"] for line in logs] == ["master_secret_received"]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(app_secret=app_key(NEW, "reports"), app_secret_previous=app_key(OLD, "reports")),
        Settings(secret=NEW, secret_previous=OLD),
    ],
    ids=["two keys of the app", "two master secrets"],
)
def test_while_keys_are_changed_there_are_two(settings: Settings) -> None:
    with capture_logs():
        keys = app_keys(settings, "reports")

    assert keys.of("reports") == ClusterKeys(NEW, OLD).of("reports")


def test_schedulers_and_consoles_have_the_keys_of_all_apps() -> None:
    keys = cluster_keys(Settings(secret=NEW, secret_previous=OLD))

    for app in ("reports", "mails"):
        assert keys.of(app) == AppKeys.derived(app, NEW, OLD).of(app)


def test_without_any_there_is_a_line_that_names_the_setting() -> None:
    with pytest.raises(SettingsError, match="WARREN_SECRET"):
        cluster_keys(Settings(app_secret=app_key(NEW, "reports")))
