"""Makes the log store that the settings name; without one, nothing of it is imported."""

from urllib.parse import urlsplit

from warren.broker.log_folder import shared_folder
from warren.errors import SettingsError
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import LogStore, StoredLogs, StoreUnavailable
from warren.settings.settings import Settings


def make_log_store(settings: Settings) -> LogStore | None:
    """Return the log store; None if there is none.

    Raises:
        SettingsError: it cannot be used with these settings.

    """
    return None if settings.log_store is None else _opened(settings, settings.log_store)


def _opened(settings: Settings, place: str) -> LogStore:
    folder = shared_folder(place)
    if folder is not None:
        return FolderStore(folder)
    try:
        from warren.scheduler.log_store.s3_store import Bucket, S3Store  # noqa: PLC0415 - an extra
    except ImportError as error:
        if error.name is None or not error.name.startswith("botocore"):
            raise
        words = "WARREN_LOG_STORE needs the extra s3: install Warren's wheel with [server,s3]"
        raise SettingsError([words]) from error
    parts = urlsplit(place)
    bucket = Bucket(
        name=parts.netloc,
        prefix=parts.path.strip("/"),
        endpoint=settings.log_store_endpoint or "",
        region=settings.log_store_region or "",
        access_key=settings.log_store_access_key or "",
        secret_key=settings.log_store_secret_key or "",
    )
    try:
        return S3Store(bucket)
    except StoreUnavailable as error:
        raise SettingsError([f"WARREN_LOG_STORE: {error}"]) from error


def make_stored_logs(settings: Settings, *, lazily: bool = False) -> StoredLogs | None:
    """Return what reads logs in the store; None if there is none.

    `lazily`: whatever is wrong with the settings is told when the first log is read.

    Raises:
        SettingsError: it cannot be used with these settings.

    """
    place = settings.log_store
    if place is None:
        return None
    if lazily:
        return StoredLogs(lambda: _opened(settings, place))
    store = _opened(settings, place)
    return StoredLogs(lambda: store)
