"""The lines of the journal: one JSON object each, told apart by `t`."""

import msgspec

from broker.messages import Finished, NotStarted

#: A report after which there is nothing more to say of a run.
Final = Finished | NotStarted


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t"):
    """Root of the journal's lines."""


class Boot(Record, frozen=True, kw_only=True, tag="BOOT"):
    """A boot began to take runs; what follows is of this boot until the next.

    `host_boot` tells this boot of the host from its others.
    """

    boot_id: str
    at_ms: int
    host_boot: str = ""


class Accepted(Record, frozen=True, kw_only=True, tag="ACCEPTED"):
    """A run was taken over from the broker."""

    run_id: int


class Reserved(Record, frozen=True, kw_only=True, tag="RESERVED"):
    """These runs may be started once this is durable, each by a STARTING that is only written."""

    run_ids: tuple[int, ...]


class Starting(Record, frozen=True, kw_only=True, tag="STARTING"):
    """A run's process may exist from here on."""

    run_id: int
    at_ms: int


class Ended(Record, frozen=True, kw_only=True, tag="FINISHED"):
    """A run ended, or provably never will start."""

    report: Final


class Confirmed(Record, frozen=True, kw_only=True, tag="CONFIRMED"):
    """The broker has these runs' reports."""

    run_ids: tuple[int, ...]
    at_ms: int


class Remembered(Record, frozen=True, kw_only=True, tag="REMEMBERED"):
    """Of the ids from `block` * BLOCK_SIZE on, those whose bit is set in `bits` (hex) are done."""

    block: int
    bits: str
    at_ms: int


class Horizon(Record, frozen=True, kw_only=True, tag="HORIZON"):
    """Runs triggered before may have been forgotten."""

    since_ms: int


AnyRecord = Boot | Accepted | Reserved | Starting | Ended | Confirmed | Remembered | Horizon

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)


def to_line(record: AnyRecord) -> bytes:
    """Return a record as a line without its newline.

    Raises:
        UnicodeEncodeError: a text holds a lone surrogate.

    """
    return _encoder.encode(record)


def from_line(line: bytes) -> AnyRecord | None:
    """Return the record of a line, None when the line is damaged."""
    try:
        record: AnyRecord = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return record


def line_of(report: Final) -> bytes:
    """Return the FINISHED line of a report; raises as `to_line`."""
    return _encoder.encode(Ended(report=report))


def report_of(line: bytes) -> Final:
    """Return the report of a FINISHED line."""
    record = _decoder.decode(line)
    if not isinstance(record, Ended):
        raise TypeError(f"expected a FINISHED line, got: {record!r}")
    return record.report


def without_surrogates(report: Final) -> Final:
    """Return the report with a ? for whatever is no Unicode, such as the name of a stray file."""
    texts = {"reason"} if isinstance(report, NotStarted) else {"message", "log_tail"}
    cleaned = {
        name: getattr(report, name).encode("utf-8", "replace").decode() for name in sorted(texts)
    }
    return msgspec.structs.replace(report, **cleaned)
