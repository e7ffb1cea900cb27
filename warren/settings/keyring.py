"""Derives the keys that a process needs from the settings."""

import structlog

from warren.broker.keys import AppKeys, ClusterKeys
from warren.settings.settings import Settings, needed_secret

log = structlog.get_logger()


def cluster_keys(settings: Settings) -> ClusterKeys:
    """Return the keys of all apps, for a scheduler or console.

    Raises:
        SettingsError: the master secret is not set.

    """
    return ClusterKeys(needed_secret(settings), settings.secret_previous)


def app_keys(settings: Settings, app: str) -> AppKeys:
    """Return the keys of an executor's app; derived from the master secret only if it has no other.

    Raises:
        SettingsError: neither is set.

    """
    if settings.secret is not None:
        # An attacker who controls this host could then act for every app.
        log.warning(
            "master_secret_received",
            app=app,
            reason="executors need WARREN_APP_SECRET only: warren secrets app " + app,
        )
    if settings.app_secret is not None:
        return AppKeys(app, settings.app_secret, settings.app_secret_previous)
    return AppKeys.derived(app, needed_secret(settings), settings.secret_previous)
