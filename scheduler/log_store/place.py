"""Opens the log store that the settings name."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from warren.broker.log_folder import shared_folder
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import LogStore, StoreUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The settings of a log store; `place` is a folder, or `s3://bucket/prefix`."""

    place: str
    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)


def open_store(settings: StoreSettings) -> LogStore:
    """Return the log store; nothing is asked of it yet.

    Raises:
        StoreUnavailable: the extra `s3` is not installed, or its library takes no such settings.

    """
    folder = shared_folder(settings.place)
    if folder is not None:
        return FolderStore(folder)
    try:
        from warren.scheduler.log_store.s3_store import Bucket, S3Store  # noqa: PLC0415 - an extra
    except ImportError as error:
        if error.name is None or not error.name.startswith("botocore"):
            raise
        raise StoreUnavailable("it needs the extra s3: pip install 'warren[s3]'") from error
    parts = urlsplit(settings.place)
    return S3Store(
        Bucket(
            name=parts.netloc,
            prefix=parts.path.strip("/"),
            endpoint=settings.endpoint,
            region=settings.region,
            access_key=settings.access_key,
            secret_key=settings.secret_key,
        )
    )
