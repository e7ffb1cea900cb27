"""A log store in S3, or in what speaks its protocol. The only module that knows botocore.

Schedulers and consoles have the keys. An executor gets a URL that is signed for one file of a given
length, for some minutes. Without keys among the settings, botocore looks for them as AWS's tools
do: in its own variables and files, or the role of the machine.
"""

import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from warren.scheduler.log_store.store import PLACE_SECONDS, S3, StoreUnavailable

#: The most files that one request deletes.
_AT_ONCE = 1_000
_CONNECT_SECONDS, _READ_SECONDS = 3.0, 10.0
#: Requests at a time.
_CONNECTIONS = 16
_DEFAULT_REGION = "us-east-1"
#: In the header of a signed request.
_REGION = re.compile(r"Credential=[^,]*/\d{8}/([^/,]+)/s3/")
_ABSENT = {"404", "NoSuchKey", "NotFound"}
#: What a server says that cannot delete several files at once, or wants another checksum.
_ONE_BY_ONE = {"NotImplemented", "MethodNotAllowed", "InvalidRequest", "MissingContentMD5"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Where logs are: keys begin with the prefix. Empty = as botocore finds it."""

    name: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)


class S3Store:
    """The stored logs in a bucket."""

    kind = S3

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._prefix = f"{bucket.prefix.strip('/')}/" if bucket.prefix.strip("/") else ""
        self._client = _client(bucket)
        # Signing is thread-safe, but finding the keys for the first time is not.
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Do nothing: whoever has the bucket made it."""

    def address(self, key: str, size: int) -> str:
        what = {"Bucket": self._bucket.name, "Key": self._prefix + key, "ContentLength": size}
        with _told(self._bucket), self._lock:
            url: str = self._client.generate_presigned_url(
                "put_object", Params=what, ExpiresIn=PLACE_SECONDS
            )
        return url

    def size(self, key: str) -> int | None:
        with _told(self._bucket):
            try:
                return int(self._call("head_object", key)["ContentLength"])
            except ClientError as error:
                if _code(error) in _ABSENT:
                    return None
                raise

    def fetch(self, key: str, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with _told(self._bucket):
            span = f"bytes={offset}-{offset + length - 1}"
            try:
                answer = self._call("get_object", key, Range=span)
            except ClientError as error:
                if _code(error) in _ABSENT:
                    return b""
                raise
            # A server that ignores the range would send the whole file.
            text: bytes = answer["Body"].read(length)
            answer["Body"].close()
            return text

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        faults: dict[str, str] = {}
        for start in range(0, len(keys), _AT_ONCE):
            faults |= self._delete(keys[start : start + _AT_ONCE])
        return faults

    def check(self) -> str:
        key = f"probe-{secrets.token_hex(8)}"
        with _told(self._bucket), self._noted_regions() as regions:
            self._call("put_object", key, Body=b"probe")
        found = self.fetch(key, 0, 5)
        faults = self.delete([key])
        if faults:
            raise StoreUnavailable(f"{self._name}: cannot delete: {faults[key]}")
        if found != b"probe":
            raise StoreUnavailable(f"{self._name} does not keep what is written to it")
        ours = self._client.meta.region_name
        if regions and regions[-1] != ours:
            raise StoreUnavailable(
                f"{self._name} is in the region {regions[-1]}, not {ours}: executors could store "
                "nothing; set WARREN_LOG_STORE_REGION"
            )
        return f"{self._name} can be written, read and deleted from"

    @contextmanager
    def _noted_regions(self) -> Iterator[list[str]]:
        """Yield the regions for which requests are signed, in their order.

        The library tries again with the bucket's region, but signs no addresses with it.
        """
        regions: list[str] = []

        def note(request: Any, **_others: Any) -> None:
            regions.extend(_REGION.findall(str(request.headers["Authorization"])))

        events = self._client.meta.events
        events.register("before-send.s3", note)
        try:
            yield regions
        finally:
            events.unregister("before-send.s3", note)

    @property
    def _name(self) -> str:
        return f"s3://{self._bucket.name}/{self._prefix}".rstrip("/")

    def _call(self, method: str, key: str, **others: Any) -> Any:
        call = getattr(self._client, method)
        return call(Bucket=self._bucket.name, Key=self._prefix + key, **others)

    def _delete(self, keys: Sequence[str]) -> dict[str, str]:
        objects = [{"Key": self._prefix + key} for key in keys]
        with _told(self._bucket):
            try:
                answer = self._client.delete_objects(
                    Bucket=self._bucket.name, Delete={"Objects": objects, "Quiet": True}
                )
            except ClientError as error:
                if _code(error) not in _ONE_BY_ONE:
                    raise
                for key in keys:
                    self._call("delete_object", key)
                return {}
        return {
            str(each["Key"]).removeprefix(self._prefix): str(each.get("Message") or each["Code"])
            for each in answer.get("Errors", ())
            if each.get("Code") not in _ABSENT
        }


def _client(bucket: Bucket) -> Any:
    session = Session()
    keys = {}
    if bucket.access_key:
        keys = {
            "aws_access_key_id": bucket.access_key,
            "aws_secret_access_key": bucket.secret_key,
        }
    region = bucket.region or session.get_config_variable("region") or _DEFAULT_REGION
    # Many servers other than AWS's have no host name for each bucket, and know fewer checksums.
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "path" if bucket.endpoint else "auto"},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 2, "mode": "standard"},
        max_pool_connections=_CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    with _told(bucket):
        return session.create_client(
            "s3",
            region_name=region,
            endpoint_url=bucket.endpoint or None,
            config=config,
            **keys,
        )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _told(bucket: Bucket) -> Iterator[None]:
    """Raise StoreUnavailable in one line for what the library raises."""
    try:
        yield
    except ClientError as error:
        said = error.response.get("Error", {})
        words = " ".join(str(said.get("Message") or "").split())
        refused = f"s3://{bucket.name}: {error.operation_name} was refused: {_code(error)} {words}"
        raise StoreUnavailable(refused.strip()) from error
    except (BotoCoreError, OSError, ValueError) as error:
        words = " ".join(str(error).split())
        raise StoreUnavailable(f"s3://{bucket.name}: {words}") from error
