"""Makes the log store that the settings name; without one, nothing of it is imported."""

from warren.errors import SettingsError
from warren.scheduler.log_store.place import StoreSettings, open_store
from warren.scheduler.log_store.store import LogStore, StoredLogs, StoreUnavailable
from warren.settings.settings import Settings


def make_log_store(settings: Settings) -> LogStore | None:
    """Return the log store; None if there is none.

    Raises:
        SettingsError: it cannot be used with these settings.

    """
    return None if settings.log_store is None else _opened(settings)


def _opened(settings: Settings) -> LogStore:
    try:
        return open_store(
            StoreSettings(
                place=settings.log_store or "",
                endpoint=settings.log_store_endpoint or "",
                region=settings.log_store_region or "",
                access_key=settings.log_store_access_key or "",
                secret_key=settings.log_store_secret_key or "",
            )
        )
    except StoreUnavailable as error:
        raise SettingsError([f"WARREN_LOG_STORE: {error}"]) from error


def make_stored_logs(settings: Settings, *, lazily: bool = False) -> StoredLogs | None:
    """Return what reads logs in the store; None if there is none.

    `lazily`: whatever is wrong with the settings is told when the first log is read.

    Raises:
        SettingsError: it cannot be used with these settings.

    """
    if settings.log_store is None:
        return None
    if lazily:
        return StoredLogs(lambda: _opened(settings))
    store = _opened(settings)
    return StoredLogs(lambda: store)
