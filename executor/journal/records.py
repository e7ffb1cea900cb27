"""The lines of the journal: one JSON object each, with its type in `t`."""

import msgspec

from warren.broker.messages import Called, Finished, NotStarted, Trigger

#: The last report about a run.
Final = Finished | NotStarted
#: A call: the run that calls, and the number of the call.
CallKey = tuple[int, int]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t"):
    """Root of the journal's lines."""


#: The format of the journal; that of 0.1.0 is 1. It rises when an older executor would lose or
#: repeat runs by what it does not understand.
FORMAT = 1


class Boot(Record, frozen=True, kw_only=True, tag="BOOT"):
    """A boot began to take runs; the following lines up to the next BOOT belong to it.

    `host_boot` identifies the boot of the host; `format` is that of the lines that follow.
    """

    boot_id: str
    at_ms: int
    host_boot: str = ""
    format: int = 1


class Accepted(Record, frozen=True, kw_only=True, tag="ACCEPTED"):
    """A run was accepted from the broker; 0.1.0 wrote no `identity`."""

    run_id: int
    identity: int = 0


class Reserved(Record, frozen=True, kw_only=True, tag="RESERVED"):
    """Once this is durable, these runs may start with a STARTING that is written but not synced."""

    run_ids: tuple[int, ...]


class HandedOver(Record, frozen=True, kw_only=True, tag="HANDED"):
    """These runs may be given to one job process at once, which begins them in this order."""

    run_ids: tuple[int, ...]


class Starting(Record, frozen=True, kw_only=True, tag="STARTING"):
    """From here on the run's process may exist; with a `trigger` it is remote, and may outlive us.

    `at_ms` is the scheduler's time. `host_at_ms` is the host's, which the next process can compare
    with its own clock before a scheduler answers.
    """

    run_id: int
    at_ms: int
    trigger: Trigger | None = None
    host_at_ms: int = 0


class Ended(Record, frozen=True, kw_only=True, tag="FINISHED"):
    """A run ended, or will certainly never start."""

    report: Final


class Calling(Record, frozen=True, kw_only=True, tag="CALLED"):
    """A run asks for another one."""

    report: Called


class CallsConfirmed(Record, frozen=True, kw_only=True, tag="CALLS_CONFIRMED"):
    """The broker has the reports of these calls."""

    calls: tuple[CallKey, ...]


class Confirmed(Record, frozen=True, kw_only=True, tag="CONFIRMED"):
    """The broker has these runs' reports."""

    run_ids: tuple[int, ...]
    at_ms: int


class FinishedIdBlock(Record, frozen=True, kw_only=True, tag="REMEMBERED"):
    """Of the ids from `block` * BLOCK_SIZE on, those with a bit in `bits` (hex) are finished."""

    block: int
    bits: str
    at_ms: int


class Horizon(Record, frozen=True, kw_only=True, tag="HORIZON"):
    """Finished runs from before this time may be missing."""

    since_ms: int


AnyRecord = (
    Boot
    | Accepted
    | Reserved
    | HandedOver
    | Starting
    | Ended
    | Calling
    | CallsConfirmed
    | Confirmed
    | FinishedIdBlock
    | Horizon
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)


def to_line(record: AnyRecord) -> bytes:
    """Encode a record as a line without its newline.

    Raises:
        UnicodeEncodeError: a text contains a lone surrogate.

    """
    return _encoder.encode(record)


def from_line(line: bytes) -> AnyRecord | None:
    """Decode a line; return None if it is damaged."""
    try:
        record: AnyRecord = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return record


def line_of(report: Final) -> bytes:
    """Encode a report as a FINISHED line; raises as `to_line` does."""
    return _encoder.encode(Ended(report=report))


def line_of_call(report: Called) -> bytes:
    """Encode a call as a CALLED line; in its param, `?` replaces what is not Unicode."""
    try:
        return _encoder.encode(Calling(report=report))
    except UnicodeEncodeError:
        texts = {"job": report.job, "param": report.param or ""}
        fit = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
        return _encoder.encode(Calling(report=msgspec.structs.replace(report, **fit)))


def call_of(line: bytes) -> Called:
    """Return the report of a CALLED line."""
    record = _decoder.decode(line)
    if not isinstance(record, Calling):
        raise TypeError(f"expected a CALLED line, got: {record!r}")
    return record.report


def report_of(line: bytes) -> Final:
    """Return the report of a FINISHED line."""
    record = _decoder.decode(line)
    if not isinstance(record, Ended):
        raise TypeError(f"expected a FINISHED line, got: {record!r}")
    return record.report


def without_surrogates(report: Final) -> Final:
    """Return the report with `?` for everything that is not Unicode, such as in a file's name."""
    texts = {"reason"} if isinstance(report, NotStarted) else {"message", "log_tail", "result"}
    cleaned = {
        name: getattr(report, name).encode("utf-8", "replace").decode() for name in sorted(texts)
    }
    return msgspec.structs.replace(report, **cleaned)
