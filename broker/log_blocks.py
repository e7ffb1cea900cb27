"""A stored log: gzip in blocks, so that a part of it can be read without the rest.

    block 1 | block 2 | … | index, in pieces | end
    each a gzip member; those of the index and the end hold no text, but a field in their headers

So `zcat` prints the log, and a reader that has the end of the file knows where each block begins,
both in the file and in the log, and which line is there. A block has BLOCK_BYTES of the log, the
last one less. The index is JSON, compressed by zlib.
"""

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Annotated, BinaryIO

import msgspec

from warren.broker.errors import Malformed
from warren.broker.log_lines import (
    CHUNK_BYTES,
    NOTES_BYTES,
    FoundLines,
    Lines,
    find,
    no_lines,
    skip,
    take,
    time_changes,
)

BLOCK_BYTES = 262_144
#: The most bytes of a stored log, in its file, and of its index as JSON. Logs have 50 MB at most,
#: and what cannot be compressed grows a little.
FILE_BYTES = 60_000_000
INDEX_BYTES = 2_000_000
#: How much of a file's end is read first: short logs are read at once.
END_BYTES = 65_536
#: How many compressed bytes of blocks are read at once.
READ_AHEAD_BYTES = 1_000_000
#: zlib: the level of compression, and a gzip header instead of its own.
_LEVEL, _GZIP = 3, 31
_MAX_BLOCKS = 1_000

_HEADER = b"\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff"  # gzip with an extra field, without a time
_EMPTY = b"\x03\x00" + bytes(8)  # no text, its checksum and its length
_INDEX_FIELD, _END_FIELD = b"WI", b"WE"
_FIELD = struct.Struct("<H2sH")  # length of all fields; name and length of this one
_PLACE = struct.Struct("<QQ")
_PIECE_BYTES = 60_000
_END_SIZE = len(_HEADER) + _FIELD.size + _PLACE.size + len(_EMPTY)
_Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class Block(msgspec.Struct, frozen=True, array_like=True):
    """The length of a block in the log and in the file, and the line feeds in it."""

    size: Annotated[int, msgspec.Meta(gt=0, le=BLOCK_BYTES)]
    packed: Annotated[int, msgspec.Meta(gt=0, le=2 * BLOCK_BYTES)]
    newlines: Annotated[int, msgspec.Meta(ge=0, le=BLOCK_BYTES)]


class Index(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The blocks of a log, when it was last written, and the notes about its lines' times.

    A part of a log begins at an offset of it.
    """

    blocks: Annotated[tuple[Block, ...], msgspec.Meta(max_length=_MAX_BLOCKS)]
    changed_ms: _Natural = 0
    notes: Annotated[str, msgspec.Meta(max_length=NOTES_BYTES + 100)] = ""
    begins_at: _Natural = 0

    @property
    def size(self) -> int:
        """The length of the log."""
        return sum(block.size for block in self.blocks)


_index_decoder = msgspec.json.Decoder(Index)


def pack(
    log: BinaryIO,
    into: Callable[[bytes], object],
    *,
    size: int,
    notes: bytes = b"",
    changed_ms: int = 0,
    begins_at: int = 0,
    between: Callable[[], None] = lambda: None,
) -> int:
    """Write `size` bytes of a log in blocks; return how many bytes were written.

    It reads from the file's position on, which is `begins_at`. `between` is called after each
    block.

    Raises:
        OSError: the log cannot be read, or `into` raises it.

    """
    blocks: list[Block] = []
    left = size
    while left > 0 and (text := log.read(min(BLOCK_BYTES, left))):
        left -= len(text)
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        packed = packer.compress(text) + packer.flush()
        into(packed)
        blocks.append(Block(len(text), len(packed), text.count(b"\n")))
        between()
    index = Index(
        blocks=tuple(blocks),
        changed_ms=changed_ms,
        notes=notes.decode("ascii", "replace"),
        begins_at=begins_at,
    )
    place = sum(block.packed for block in blocks)
    length = 0
    for piece in _pieces(zlib.compress(msgspec.json.encode(index), _LEVEL)):
        member = _member(_INDEX_FIELD, piece)
        into(member)
        length += len(member)
    into(_member(_END_FIELD, _PLACE.pack(place, length)))
    return place + length + _END_SIZE


def _pieces(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), _PIECE_BYTES):
        yield text[start : start + _PIECE_BYTES]


def _member(name: bytes, field: bytes) -> bytes:
    return _HEADER + _FIELD.pack(len(field) + 4, name, len(field)) + field + _EMPTY


def _fields(text: bytes, name: bytes) -> Iterator[bytes]:
    """Yield the fields of members that have no text, one after the other."""
    at = 0
    while at < len(text):
        head = at + len(_HEADER)
        if text[at:head] != _HEADER or len(text) < head + _FIELD.size:
            raise Malformed("expected the index of a stored log, got something else")
        _, found, length = _FIELD.unpack_from(text, head)
        begin = head + _FIELD.size
        if found != name or len(text) < begin + length + len(_EMPTY):
            raise Malformed("expected the index of a stored log, got something else")
        yield text[begin : begin + length]
        at = begin + length + len(_EMPTY)


#: Returns the bytes of a file from an offset on: as many as asked for.
Fetch = Callable[[int, int], bytes]


class PackedLog:
    """Reads a stored log, a part at a time; `stored` returns bytes of its blocks.

    Raises:
        Malformed: it is damaged. Every method may raise this.

    """

    def __init__(self, index: Index, stored: Fetch) -> None:
        self.index = index
        self.stored = stored
        blocks = index.blocks
        #: How many bytes of a file all blocks have.
        self.packed_size = sum(block.packed for block in blocks)
        #: Where each block begins in the log and in the file, and the line feeds before it.
        self._offsets = [0, *accumulate(block.size for block in blocks)]
        self._places = [0, *accumulate(block.packed for block in blocks)]
        self._newlines = [0, *accumulate(block.newlines for block in blocks)]

    @classmethod
    def open(cls, fetch: Fetch, size: int) -> "PackedLog":
        """Return the log in a file of `size` bytes.

        Raises:
            Malformed: that is no stored log.

        """
        if not _END_SIZE < size <= FILE_BYTES:
            raise Malformed(f"expected a stored log of up to {FILE_BYTES} bytes, got: {size}")
        file = _File(fetch, size)
        return cls(file.index(), file.read)

    @classmethod
    def joined(cls, logs: Sequence["PackedLog"]) -> "PackedLog":
        """Return the log whose parts these are, in order."""
        index = Index(
            blocks=tuple(block for log in logs for block in log.index.blocks),
            changed_ms=logs[-1].index.changed_ms,
            notes=logs[-1].index.notes,
        )

        def stored(begin: int, length: int) -> bytes:
            text = b""
            for log in logs:
                if begin < log.packed_size and length:
                    piece = log.stored(begin, min(length, log.packed_size - begin))
                    text, length = text + piece, length - len(piece)
                begin = max(0, begin - log.packed_size)
            return text

        return cls(index, stored)

    def read(self, from_line: int, limit: int, *, at_end: bool = False) -> Lines:
        """Return up to `limit` lines and CHUNK_BYTES of text, or the last ones."""
        file = self._open()
        from_line = self._first_of_last(file, limit) if at_end else max(1, from_line)
        if not self._seek(file, from_line):
            return no_lines(from_line)
        lines, offsets = take(file, from_line, max(0, limit))
        notes = self.index.notes.encode("ascii", "replace")
        times = time_changes(notes, offsets, from_line, self.index.changed_ms)
        return replace(lines, times=times)

    def search(self, words: str, from_line: int) -> FoundLines:
        """Return which lines contain some words, as far as one search reads."""
        from_line = max(1, from_line)
        file = self._open()
        if not words or not self._seek(file, from_line):
            return FoundLines(lines=(), to_line=from_line - 1, is_end=True)
        return find(file, words, from_line)

    def text(self) -> Iterator[bytes]:
        """Yield the whole log, piece by piece."""
        file = self._open()
        while piece := file.read(BLOCK_BYTES):
            yield piece

    def _open(self) -> io.BufferedReader:
        return io.BufferedReader(_Text(self), BLOCK_BYTES)

    def _seek(self, file: io.BufferedReader, line: int) -> bool:
        """Move to the beginning of a line; return False if there are fewer."""
        before = line - 1
        if before > self._newlines[-1]:
            return False
        block = next((at for at, count in enumerate(self._newlines[1:]) if count >= before), 0)
        file.seek(self._offsets[block] if before else 0)
        return skip(file, before - self._newlines[block] if before else 0)

    def _first_of_last(self, file: io.BufferedReader, limit: int) -> int:
        """Return with which line the last ones begin; see `log_lines.first_of_last`."""
        size, newlines = self._offsets[-1], self._newlines[-1]
        start = max(0, size - CHUNK_BYTES)
        block = next(at for at in range(len(self._offsets)) if self._offsets[at] >= start)
        block = max(0, block - (self._offsets[block] > start))
        file.seek(self._offsets[block])
        head = file.read(start - self._offsets[block])
        tail = file.read(size - start)
        earlier = self._newlines[block] + head.count(b"\n")
        count = newlines + (bool(tail) and not tail.endswith(b"\n"))
        begins_there = not start or (head or self._byte_before(file, start)).endswith(b"\n")
        first = earlier + 1 if begins_there else earlier + 2
        return max(1, count - limit + 1, min(first, count))

    def _byte_before(self, file: io.BufferedReader, offset: int) -> bytes:
        file.seek(offset - 1)
        return file.read(1)

    def block_of(self, offset: int) -> int:
        """Return which block has a byte of the log; as many as there are, if it is behind it."""
        return next(
            (at for at in range(len(self.index.blocks)) if self._offsets[at + 1] > offset),
            len(self.index.blocks),
        )

    def offset_of(self, block: int) -> int:
        return self._offsets[block]

    def blocks(self, first: int) -> list[bytes]:
        """Return the texts of some blocks from one on: as many as are read at once."""
        last = first + 1
        limit = self._places[first] + READ_AHEAD_BYTES
        while last < len(self.index.blocks) and self._places[last + 1] <= limit:
            last += 1
        begin = self._places[first]
        packed = self.stored(begin, self._places[last] - begin)
        texts = []
        for block in self.index.blocks[first:last]:
            text = _unpacked(packed[: block.packed], block.size, _GZIP)
            if len(text) != block.size:
                raise Malformed("expected a whole block of a stored log, got a part of it")
            texts.append(text)
            packed = packed[block.packed :]
        return texts


class _File:
    """The file of a stored log; its end is read at once, and remembered."""

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._end = _exactly(fetch, max(0, size - END_BYTES), min(size, END_BYTES))
        self._end_at = size - len(self._end)

    def read(self, begin: int, length: int) -> bytes:
        if begin >= self._end_at:
            return self._end[begin - self._end_at :][:length]
        return _exactly(self._fetch, begin, length)

    def index(self) -> Index:
        [place] = _fields(self._end[-_END_SIZE:], _END_FIELD)
        if len(place) != _PLACE.size:
            raise Malformed("expected the end of a stored log, got something else")
        begin, length = _PLACE.unpack(place)
        if begin + length + _END_SIZE != self._size or length > INDEX_BYTES:
            raise Malformed("expected the end of a stored log, got something else")
        packed = b"".join(_fields(self.read(begin, length), _INDEX_FIELD))
        try:
            index = _index_decoder.decode(_unpacked(packed, INDEX_BYTES, zlib.MAX_WBITS))
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Malformed(f"cannot read the index of a stored log: {error}") from error
        if sum(block.packed for block in index.blocks) != begin:
            raise Malformed("expected the blocks of a stored log to fill its file")
        return index


class _Text(io.RawIOBase):
    """The text of a stored log as a file."""

    def __init__(self, log: PackedLog) -> None:
        super().__init__()
        self._log = log
        self._at = 0
        #: The blocks that were read last, from this one on.
        self._first = 0
        self._texts: list[bytes] = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            offset += self._log.index.size
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._log.block_of(self._at)
        if block == len(self._log.index.blocks):
            return 0
        if not self._first <= block < self._first + len(self._texts):
            self._first, self._texts = block, self._log.blocks(block)
        start = self._at - self._log.offset_of(block)
        text = self._texts[block - self._first][start : start + len(buffer)]
        buffer[: len(text)] = text
        self._at += len(text)
        return len(text)


def _exactly(fetch: Fetch, offset: int, length: int) -> bytes:
    found = fetch(offset, length)
    if len(found) != length:
        raise Malformed(f"expected {length} bytes of a stored log, got: {len(found)}")
    return found


def _unpacked(packed: bytes, limit: int, wbits: int) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits)
        text = unpacker.decompress(packed, limit + 1)
    except zlib.error as error:
        raise Malformed(f"cannot read a stored log: {error}") from error
    if len(text) > limit or not unpacker.eof:
        raise Malformed("expected a whole block of a stored log, got something else")
    return text
