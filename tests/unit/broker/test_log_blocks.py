"""A stored log reads as the log itself, a part at a time, and what is none is refused."""

import gzip
import io
import itertools
import random
from dataclasses import replace

import pytest

from warren.broker import log_lines
from warren.broker.errors import Malformed
from warren.broker.log_blocks import BLOCK_BYTES, PackedLog, pack
from warren.broker.log_lines import Lines


def packed(text: bytes, **facts: int) -> bytes:
    file = io.BytesIO()
    pack(io.BytesIO(text), file.write, size=len(text), **facts)  # type: ignore[arg-type]
    return file.getvalue()


def opened(data: bytes) -> PackedLog:
    return PackedLog.open(lambda offset, length: data[offset : offset + length], len(data))


def local(text: bytes, from_line: int, limit: int, *, at_end: bool = False) -> Lines:
    """Return what an executor reads in the log itself."""
    file = io.BufferedReader(io.BytesIO(text))  # type: ignore[arg-type]
    if at_end:
        from_line = log_lines.first_of_last(file, limit, growing=False)
    if not log_lines.skip(file, from_line - 1):
        return log_lines.no_lines(from_line)
    lines, offsets = log_lines.take(file, from_line, limit)
    return replace(lines, times=log_lines.time_changes(b"", offsets, from_line, 0))


def made_up(lines: int, end: bytes) -> bytes:
    source = random.Random(lines)
    return b"\n".join(b"w%d " % n * source.choice((0, 1, 5, 9)) for n in range(lines)) + end


TEXTS = {
    "one line": b"hello",
    "an empty line": b"\n",
    "a few": made_up(10, b"\n"),
    "without an end": made_up(5_000, b""),
    "several blocks": made_up(80_000, b"\n"),
    "a line over blocks": made_up(100, b"\n") + b"x" * (3 * BLOCK_BYTES) + b"\nlast",
}


@pytest.mark.parametrize("name", TEXTS)
def test_lines_are_those_of_the_log_itself(name: str) -> None:
    text = TEXTS[name]
    log = opened(packed(text))
    count = text.count(b"\n") + 1

    for from_line in {1, 2, 3, count // 2 + 1, count - 1, count, count + 1}:
        for limit in (1, 7, 1_000):
            if from_line > 0:
                assert log.read(from_line, limit) == local(text, from_line, limit)
    for limit in (1, 200, 10**6):
        assert log.read(1, limit, at_end=True) == local(text, 1, limit, at_end=True)
    assert b"".join(log.text()) == text
    assert gzip.decompress(packed(text)) == text


@pytest.mark.parametrize("words", ["w7 W7", "w79999", "not there"])
def test_a_search_finds_what_it_finds_in_the_log_itself(words: str) -> None:
    text = TEXTS["several blocks"]
    file = io.BufferedReader(io.BytesIO(text))  # type: ignore[arg-type]

    assert opened(packed(text)).search(words, 1) == log_lines.find(file, words, 1)


def test_times_of_lines_are_kept() -> None:
    file = io.BytesIO()
    text = b"first\nsecond\nthird\n"
    notes = b"6 1000\n13 2000\n"
    pack(io.BytesIO(text), file.write, size=len(text), notes=notes, changed_ms=3_000)

    assert opened(file.getvalue()).read(1, 9).times == ((1, 1_000), (2, 2_000), (3, 3_000))


def test_parts_read_as_one_log() -> None:
    text = TEXTS["several blocks"]
    cuts = [0, 5, 300_000, 300_001, len(text)]
    parts = [
        opened(packed(text[begin:end], begins_at=begin)) for begin, end in itertools.pairwise(cuts)
    ]

    log = PackedLog.joined(parts)

    assert b"".join(log.text()) == text
    assert log.read(30_000, 500) == local(text, 30_000, 500)
    assert log.read(1, 3, at_end=True) == local(text, 1, 3, at_end=True)


def test_the_end_of_a_long_log_is_read_alone() -> None:
    data, asked = packed(TEXTS["several blocks"]), []

    def fetch(offset: int, length: int) -> bytes:
        asked.append(length)
        return data[offset : offset + length]

    PackedLog.open(fetch, len(data)).read(1, 10, at_end=True)

    assert sum(asked) < len(data)


GOOD = packed(made_up(50_000, b"\n"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 100,
        gzip.compress(b"a log that somebody else packed"),
        GOOD[:-1],
        GOOD[1:],
        GOOD[: len(GOOD) // 2] + GOOD[len(GOOD) // 2 + 1 :],
        GOOD[:-20] + b"\xff" * 20,
        gzip.compress(b"x" * 50_000_000) + GOOD[-60:],
    ],
    ids=[
        *("nothing", "rubbish", "another gzip", "without its last byte"),
        *("without its first byte", "without a byte", "another end", "a bomb"),
    ],
)
def test_what_is_no_stored_log_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        b"".join(opened(data).text())


def test_a_block_that_unpacks_to_more_than_it_says_is_refused() -> None:
    bomb = gzip.compress(b"x" * 50_000_000, mtime=0)
    block = packed(b"x" * 100)
    log = opened(block)
    first = log.index.blocks[0]

    data = bomb[: first.packed] + block[first.packed :]

    with pytest.raises(Malformed):
        b"".join(opened(data).text())
