"""A check of a bucket says what would keep logs from it."""

import pytest

from tests.support.s3_server import REGION, S3Server
from warren.scheduler.log_store.store import StoreUnavailable


def test_a_check_leaves_nothing_behind(s3: S3Server) -> None:
    assert s3.store().check() == "s3://logs/a/prefix can be written, read and deleted from"
    assert s3.objects == {}


def test_a_check_finds_the_wrong_region_which_only_addresses_of_logs_depend_on(
    s3: S3Server,
) -> None:
    with pytest.raises(StoreUnavailable) as found:
        s3.store(region="us-east-1").check()

    assert str(found.value) == (
        f"s3://logs/a/prefix is in the region {REGION}, not us-east-1: executors could store "
        "nothing; set WARREN_LOG_STORE_REGION"
    )
    assert s3.objects == {}
