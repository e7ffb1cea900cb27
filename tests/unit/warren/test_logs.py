"""The log: JSON for machines, never a secret, never without end."""

import errno
import io
import json
import logging
import os
import re
import threading
from pathlib import Path

import pytest
import structlog

from warren.logs import BoundedFile, configure_logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def events(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_event_is_one_json_object_with_its_facts() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)

    structlog.get_logger().info("run_finished", run_id=7, status="SUCCEEDED")

    [event] = events(stream)
    assert event["event"] == "run_finished"
    assert (event["run_id"], event["status"], event["level"]) == (7, "SUCCEEDED", "info")
    assert str(event["timestamp"]).endswith("Z")


def test_quieter_events_than_the_level_are_dropped() -> None:
    stream = io.StringIO()
    configure_logs("warning", stream)

    structlog.get_logger().info("run_finished")
    structlog.get_logger().warning("role_failed")

    assert [event["event"] for event in events(stream)] == ["role_failed"]


def test_exception_stays_on_one_line() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)

    structlog.get_logger().error("role_failed", exc_info=RuntimeError("broken"))

    [event] = events(stream)
    assert "RuntimeError: broken" in str(event["exception"])


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_secrets_and_passwords_are_masked(stream: io.StringIO) -> None:
    configure_logs("info", stream)

    structlog.get_logger().info(
        "settings_read",
        secret="hush",
        db_password="hush",
        api_token="hush",
        error="cannot reach amqp://guest:hush@host:5672/ today",
        urls="mysql+pymysql://u:hush@h/d",
    )

    assert "hush" not in stream.getvalue()
    assert "***" in stream.getvalue()


@pytest.mark.parametrize("stream_type", [io.StringIO, Terminal])
def test_secrets_are_masked_wherever_they_stand(stream_type: type[io.StringIO]) -> None:
    stream = stream_type()
    configure_logs("info", stream)
    broken = RuntimeError("cannot reach mysql+pymysql://u:hush@h/d")

    structlog.get_logger().error(
        "page_failed",
        exc_info=broken,
        error=broken,
        urls=["amqp://u:hush@h", ("smtp://u:hush@h",)],
        settings={"smtp_password": "hush", "url": "https://u:hush@h"},
    )
    logging.getLogger("a library").error("cannot reach amqp://u:hush@h/", exc_info=broken)

    assert "hush" not in stream.getvalue()
    assert "RuntimeError: cannot reach mysql+pymysql://u:***@h/d" in stream.getvalue()


@pytest.mark.parametrize("stream_type", [io.StringIO, Terminal])
def test_no_value_begins_a_line_or_moves_the_cursor(stream_type: type[io.StringIO]) -> None:
    stream = stream_type()
    configure_logs("info", stream)
    log = structlog.get_logger()
    log.info("run_planned", user="alice")
    plain = stream.getvalue()
    forged = "\r\n2026-01-01 [info] user_signed_in user=admin"
    stream.truncate(0)
    stream.seek(0)

    nasty = f"alice{forged}\x1b[2J\x1b]0;x\x07\x9b31m\x00\x08\u2028\u202ex\x85"
    log.info("run_planned", user=nasty, param=nasty)
    logging.getLogger("a library").warning("from %s", nasty)

    text = stream.getvalue()
    assert len(text.splitlines()) == 2
    left = re.sub(r"\x1b\[\d*m", "", text) if "\x1b[" in plain else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", left)
    assert "user_signed_in" in text


def test_a_terminals_traceback_moves_no_cursor() -> None:
    stream = Terminal()
    configure_logs("info", stream)

    structlog.get_logger().error("role_failed", exc_info=RuntimeError("a\x1b[2Jb\rc"))

    assert "RuntimeError: a\\x1b[2Jb\\rc" in stream.getvalue()


def test_person_gets_no_json() -> None:
    stream = Terminal()
    configure_logs("info", stream)

    structlog.get_logger().info("run_finished", run_id=7)

    assert "run_finished" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_libraries_do_not_repeat_what_events_say() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)

    logging.getLogger("pika.adapters").error("connection workflow failed")

    assert stream.getvalue() == ""


class TestBoundedFile:
    def test_it_starts_anew_at_its_limit_and_keeps_the_one_before(self, tmp_path: Path) -> None:
        file = BoundedFile(tmp_path / "warren.log", limit_bytes=100)

        for number in range(50):
            file.write(f"line {number:04}\n")

        sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
        assert set(sizes) == {"warren.log", "warren.log.1"}
        assert max(sizes.values()) <= 110
        assert "line 0049" in (tmp_path / "warren.log").read_text()

    def test_it_goes_on_in_the_old_file_while_no_new_one_can_be_made(self, tmp_path: Path) -> None:
        path = tmp_path / "warren.log"
        file = BoundedFile(path, limit_bytes=100)
        file.write("x" * 100)
        kept = tmp_path / "warren.log.1"
        kept.mkdir()
        (kept / "in the way").touch()

        file.write("still here\n")
        (kept / "in the way").unlink()
        kept.rmdir()
        file.write("in a new file\n")

        assert kept.read_text().endswith("still here\n")
        assert path.read_text() == "in a new file\n"

    def test_it_goes_on_after_a_restart(self, tmp_path: Path) -> None:
        BoundedFile(tmp_path / "warren.log").write("before\n")

        BoundedFile(tmp_path / "warren.log").write("after\n")

        assert (tmp_path / "warren.log").read_text() == "before\nafter\n"

    def test_lines_of_many_threads_stay_whole(self, tmp_path: Path) -> None:
        file = BoundedFile(tmp_path / "warren.log", limit_bytes=1_000_000)

        def write(letter: str) -> None:
            for _ in range(200):
                file.write(letter * 50 + "\n")

        threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        lines = (tmp_path / "warren.log").read_text().splitlines()
        assert len(lines) == 800
        assert all(len(line) == 50 and len(set(line)) == 1 for line in lines)

    def test_text_that_is_no_unicode_is_written_escaped(self, tmp_path: Path) -> None:
        BoundedFile(tmp_path / "warren.log").write("\udcff\n")

        assert (tmp_path / "warren.log").read_text() == "\\udcff\n"


class FullDisk(io.StringIO):
    tries = 0

    def write(self, _text: str, /) -> int:
        self.tries += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_costs_lines_and_nobody_who_logs() -> None:
    full = FullDisk()
    configure_logs("info", full)

    structlog.get_logger().error("disk_filled")
    logging.getLogger("library").error("so it is")

    assert full.tries >= 2
