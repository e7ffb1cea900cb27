"""Uploads go on whatever their store does, and say what does not get there."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from tests.support.eventually import eventually
from tests.support.s3_server import S3Server
from tests.support.small_disk import fill, small_disk
from tests.support.upload_case import DAY_MS, UploadCase, key_of
from warren.broker.messages import LOG_PARTS_LIMIT
from warren.broker.transport import Confirm
from warren.executor.log_uploads.uploads import Pauses
from warren.executor.log_uploads.waiting_logs import WaitingLogs, waiting_runs
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoredLogs


@pytest.fixture
def case(tmp_path: Path, s3: S3Server) -> Iterator[UploadCase]:
    case = UploadCase(tmp_path, s3.store(prefix=""))
    yield case
    case.uploads.close()


def all_stored(case: UploadCase, *run_ids: int) -> Callable[[], bool]:
    return lambda: sorted(case.schedulers.stored) == sorted(run_ids) and not case.uploads.count


def test_many_small_logs_are_stored_each_once(case: UploadCase, s3: S3Server) -> None:
    runs = range(1, 501)

    case.run(*runs)

    eventually(all_stored(case, *runs))
    assert sorted(s3.objects) == sorted(map(key_of, runs))
    assert len([method for method, _, _ in s3.requests if method == "PUT"]) == len(runs)


@pytest.mark.release
def test_ten_thousand_small_logs_are_stored_each_once(case: UploadCase, s3: S3Server) -> None:
    case.run(*range(1, 10_001))

    eventually(all_stored(case, *range(1, 10_001)), seconds=240, every=0.1)
    assert len(s3.objects) == 10_000


def test_logs_of_a_slow_store_get_there_one_by_one(case: UploadCase, s3: S3Server) -> None:
    s3.delay_seconds = 0.1

    case.run(*range(1, 11))

    eventually(all_stored(case, *range(1, 11)))
    assert case.uploads.fault == ""


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (507, "QuotaExceeded"), (503, "SlowDown")]
)
def test_a_refusal_is_told_until_the_store_takes_logs(
    case: UploadCase, s3: S3Server, status: int, code: str
) -> None:
    s3.refuse = lambda method, _key: (status, code) if method == "PUT" else None

    case.run(1, 2)

    eventually(lambda: f"answered {status} {code} said so" in case.uploads.fault)
    assert "X-Amz" not in case.uploads.fault
    s3.refuse = lambda _method, _key: None
    eventually(all_stored(case, 1, 2))
    assert case.uploads.fault == ""


def test_the_words_of_a_refusal_are_shown_as_they_were_meant(
    case: UploadCase, s3: S3Server
) -> None:
    s3.refuse = lambda method, _key: (400, "&#34;a&#34; &amp; b") if method == "PUT" else None

    case.run(1)

    eventually(lambda: 'answered 400 "a" & b said so' in case.uploads.fault)


def test_a_full_store_takes_the_rest_once_it_has_room(case: UploadCase, s3: S3Server) -> None:
    s3.most_bytes = 500

    case.run(*range(1, 11))

    eventually(lambda: "QuotaExceeded" in case.uploads.fault and case.schedulers.stored)
    assert case.uploads.count
    s3.most_bytes = None
    eventually(all_stored(case, *range(1, 11)))


def test_a_log_that_is_refused_holds_up_no_other(case: UploadCase, s3: S3Server) -> None:
    s3.refuse = lambda _method, key: (403, "AccessDenied") if key == key_of(1) else None

    case.run(*range(1, 6))

    eventually(lambda: sorted(case.schedulers.stored) == [2, 3, 4, 5])
    eventually(lambda: case.uploads.fault.startswith("the log of run 1: "))
    s3.refuse = lambda _method, _key: None
    eventually(all_stored(case, *range(1, 6)))
    eventually(lambda: case.uploads.fault == "")


def test_a_store_that_hangs_up_is_tried_again(case: UploadCase, s3: S3Server) -> None:
    case.run(1)
    eventually(all_stored(case, 1))

    s3.stop()
    case.run(2)
    server = urlsplit(s3.url).netloc
    eventually(lambda: case.uploads.fault == f"{server}: Connection refused")
    s3.start()

    eventually(all_stored(case, 1, 2))


def test_a_long_log_waits_while_the_disk_has_no_room_to_pack_it(
    tmp_path: Path, s3: S3Server
) -> None:
    with small_disk(tmp_path / "state", 8_000_000) as disk:
        case = UploadCase(tmp_path, s3.store(prefix=""))
        taken = fill(disk)

        case.run(1, text=random.Random(7).randbytes(5_000_000))

        eventually(lambda: "run 1: it cannot be packed: No space left" in case.uploads.fault)
        assert case.schedulers.dropped == {}
        taken.unlink()
        eventually(all_stored(case, 1))
        assert case.uploads.fault == ""
        case.uploads.close()


def test_an_executor_that_ends_says_how_many_logs_it_leaves(case: UploadCase, s3: S3Server) -> None:
    s3.stop()
    case.run(1, 2)

    with capture_logs() as events:
        case.uploads.close()

    [left] = [event for event in events if event["event"] == "logs_left"]
    assert left["waiting"] == 2


def test_an_executor_that_ends_without_waiting_logs_leaves_none(case: UploadCase) -> None:
    case.run(1)
    eventually(all_stored(case, 1))

    with capture_logs() as events:
        case.uploads.close()

    assert [event for event in events if event["event"] == "logs_left"] == []


def test_schedulers_without_an_answer_are_asked_again(case: UploadCase, tmp_path: Path) -> None:
    assert case.uploads.fault == ""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    case.uploads.close()
    store = FolderStore(tmp_path / "store")
    store.prepare()
    other = UploadCase(folder, store, log_folder=store.folder)
    other.schedulers.confirm = Confirm.UNKNOWN

    other.run(1)

    eventually(lambda: "broker does not confirm" in other.uploads.fault)
    other.schedulers.confirm = Confirm.CONFIRMED
    eventually(all_stored(other, 1))
    assert len(other.schedulers.asked) == 1  # it was stored once
    other.uploads.close()


def test_the_oldest_logs_are_dropped_beyond_the_limit_and_that_is_told(
    tmp_path: Path, s3: S3Server
) -> None:
    s3.refuse = lambda _method, _key: (503, "SlowDown")
    case = UploadCase(tmp_path, s3.store(prefix=""), most_bytes=10_000)

    case.run(*range(1, 101), text=b"x" * 999 + b"\n")

    eventually(lambda: len(case.schedulers.dropped) >= 90)
    # Those that were being sent when more came are dropped once they wait again.
    assert case.waiting.size <= 10_000
    assert "dropped in the last hour" in case.uploads.fault
    assert set(case.schedulers.dropped.values()) == {
        "more logs waited than WARREN_LOG_SPOOL allows"
    }
    s3.refuse = lambda _method, _key: None
    eventually(lambda: case.uploads.count == 0)
    told = sorted([*case.schedulers.stored, *case.schedulers.dropped])
    assert told == list(range(1, 101))
    case.uploads.close()


def test_the_list_stays_short_however_many_logs_are_stored(case: UploadCase) -> None:
    for first in range(0, 30_000, 3_000):
        for run_id in range(first + 1, first + 3_001):
            case.waiting.begin(run_id, 1, DAY_MS)
            case.waiting.end(run_id, 1)
        taken = case.waiting.take(10_000, 10_000, float("inf"))
        case.waiting.forget([log.run_id for log in taken])

    path = case.folder / "state" / "unstored-logs"
    assert path.stat().st_size < 2_000_000


def test_a_run_that_starts_after_a_long_silence_of_schedulers_has_its_log_stored(
    case: UploadCase,
) -> None:
    now = time.monotonic()
    case.uploads._told_at = case.uploads._heard_at = now - 3_600.0

    case.run(1)
    assert (case.uploads.is_on, case.uploads.count) == (False, 1)
    case.uploads.told()

    eventually(lambda: case.schedulers.stored == [1])


def test_runs_are_not_noted_once_schedulers_have_no_store_any_more(case: UploadCase) -> None:
    case.uploads._told_at = time.monotonic() - 3_600.0
    case.uploads.told(has_store=False)

    case.run(1)

    assert case.uploads.count == 0


def test_the_next_boot_goes_on_with_the_list(case: UploadCase, s3: S3Server) -> None:
    s3.stop()
    case.run(1, 2)
    case.begin(3)  # it is running when its executor is killed
    case.uploads.close()
    assert waiting_runs(case.folder) == {1, 2, 3}

    s3.start()
    case.boot()

    eventually(lambda: set(case.schedulers.stored) >= {1, 2, 3})
    eventually(lambda: waiting_runs(case.folder) == set())


def test_a_half_written_line_of_the_list_is_skipped(case: UploadCase) -> None:
    case.uploads.close()
    path = case.folder / "state" / "unstored-logs"
    path.write_bytes(b"+ 5 1 1790000000000\n= 5 6\nrubbish\n+ x y z\n- 77\n+ 6 1 17900")

    assert waiting_runs(case.folder) == {5}


def test_a_log_that_was_deleted_before_is_told_as_dropped(case: UploadCase, s3: S3Server) -> None:
    s3.stop()
    case.run(1)
    Path(case.run_logs.path_of(DAY_MS, 1)).unlink()
    s3.start()

    eventually(lambda: case.schedulers.dropped or case.schedulers.stored)
    if not case.schedulers.stored:  # it may have been packed just before
        assert case.schedulers.dropped == {1: "it was deleted before it could be stored"}


def test_logs_that_wait_are_not_deleted_for_their_age(case: UploadCase, s3: S3Server) -> None:
    s3.refuse = lambda _method, _key: (503, "SlowDown")
    case.run(1, 2)
    other = Path(case.run_logs.path_of(DAY_MS, 3))
    other.write_bytes(b"of a run before there was a store\n")

    case.run_logs.clean(1, spared=waiting_runs(case.folder))

    left = {path.name for path in other.parent.iterdir()}
    assert left == {"1.log", "2.log"}


def test_a_log_that_comes_after_the_end_of_its_run_is_stored(case: UploadCase) -> None:
    case.late.add(1)
    case.begin(1)
    log = Path(case.run_logs.path_of(DAY_MS, 1))
    text = log.read_bytes()
    log.unlink()

    case.uploads.end(case.trigger(1), has_log=False)
    log.write_bytes(text)
    assert case.uploads.count == 1
    case.late.clear()

    eventually(all_stored(case, 1))


def test_logs_that_come_after_the_end_of_their_runs_count_too(tmp_path: Path, s3: S3Server) -> None:
    case = UploadCase(tmp_path, s3.store(prefix=""), most_bytes=100)
    s3.refuse = lambda method, _key: (503, "SlowDown") if method == "PUT" else None
    case.late |= {1, 2, 3}
    for run_id in (1, 2, 3):
        case.begin(run_id)
        case.uploads.end(case.trigger(run_id), has_log=False)
        case.write(run_id, b"x" * 60)

    case.late.clear()

    eventually(lambda: len(case.schedulers.dropped) == 2)
    assert case.waiting.size <= 100
    case.uploads.close()


def test_a_gateways_logs_that_wait_are_not_deleted_either(tmp_path: Path) -> None:
    folder = tmp_path / "gateway" / "demo" / "jobs:9999"
    folder.mkdir(parents=True)
    waiting = WaitingLogs(folder, 1_000)
    waiting.begin(7, 1, DAY_MS)

    assert waiting_runs(tmp_path) == {7}


def test_while_runs_wait_logs_are_stored_a_few_at_a_time(tmp_path: Path, s3: S3Server) -> None:
    busy = [True]
    case = UploadCase(tmp_path, s3.store(prefix=""), is_busy=lambda: busy[0], pauses=Pauses())
    s3.stop()
    case.run(*range(1, 41))
    s3.start()

    eventually(lambda: case.schedulers.stored)
    assert max(len(question.logs) for question in case.schedulers.asked) <= 20
    busy[0] = False
    eventually(all_stored(case, *range(1, 41)))
    case.uploads.close()


def stored_text(case: UploadCase, run_id: int) -> bytes:
    """Return what is read of a log of which parts are stored."""
    logs = StoredLogs(lambda: case.store)
    log = logs.open(key_of(run_id), case.schedulers.parts(run_id))
    return b"" if log is None else b"".join(log.text())


def test_what_a_running_run_wrote_is_in_the_store_seconds_later(case: UploadCase) -> None:
    case.begin(1, b"first line\nand a half")
    eventually(lambda: stored_text(case, 1) == b"first line\nand a half")

    case.write(1, b" line\nthird\n")

    eventually(lambda: stored_text(case, 1) == b"first line\nand a half line\nthird\n")
    logs = StoredLogs(lambda: case.store)
    log = logs.open(key_of(1), case.schedulers.parts(1))
    assert log is not None
    assert log.read(2, 1).text == "and a half line"
    assert log.read(1, 1, at_end=True).text == "third"
    assert log.search("HALF", 1).lines == (2,)


def test_a_log_that_grows_for_long_has_few_parts_to_read(case: UploadCase, s3: S3Server) -> None:
    case.begin(1, b"line 0\n")
    for number in range(1, 65):
        eventually(lambda number=number: case.schedulers.parts(1) >= number)  # type: ignore[misc]
        case.write(1, b"line %d\n" % number)
    eventually(lambda: stored_text(case, 1).endswith(b"line 64\n"))
    s3.requests.clear()

    text = stored_text(case, 1)

    assert text.decode().splitlines() == [f"line {number}" for number in range(65)]
    assert len({key for _, key, _ in s3.requests}) <= 35


def test_a_log_with_all_parts_that_there_may_be_holds_up_no_other(case: UploadCase) -> None:
    case.begin(1, b"of six days\n")
    case.waiting.running()[0].parts = LOG_PARTS_LIMIT
    case.begin(2, b"first line\n")

    eventually(lambda: stored_text(case, 2) == b"first line\n")

    assert all(log.part <= LOG_PARTS_LIMIT for asked in case.schedulers.asked for log in asked.logs)
    case.uploads.end(case.trigger(1), has_log=True)
    eventually(lambda: case.schedulers.stored == [1])


def test_the_whole_log_replaces_its_parts(case: UploadCase) -> None:
    case.begin(1, b"first\n")
    eventually(lambda: case.schedulers.parts(1) == 1)

    case.write(1, b"last\n")
    case.uploads.end(case.trigger(1), has_log=True)

    eventually(all_stored(case, 1))
    whole = StoredLogs(lambda: case.store).open(key_of(1))
    assert whole is not None
    assert b"".join(whole.text()) == b"first\nlast\n"
