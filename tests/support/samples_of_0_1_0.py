"""A program for the code of 0.1.0: writes a message of each kind, and the state of an executor.

It is run by `first_release`, never imported. What it imports are names of 0.1.0, which stay as they
are whatever modules are called today.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import structlog
from warren.broker.keys import NO_APP, ClusterKeys
from warren.broker.reasons.codes import Why
from warren.broker.reasons.stored import places, to_json

from warren.broker.codec import encode, packed
from warren.broker.messages import catalogue, to_executor, to_scheduler, values
from warren.broker.signing import Direction, Sealer
from warren.executor.begin_notes import BeginNote, OldNotes, make_note
from warren.executor.fork_server import linux
from warren.executor.journal import records
from warren.executor.journal.file import Journal
from warren.executor.journal.run_states import RunStates

APP, ADDRESS, BOOT = "demo", "host-1", "boot-old"
SECRET, CLUSTER = "a secret of at least thirty-two characters", "cluster-of-the-samples"
NOW_MS = 1_790_000_000_000

#: What texts must match, and the values that cannot be made up from their type alone.
GIVEN: dict[str, Any] = {
    "app": APP,
    "address": ADDRESS,
    "boot_id": BOOT,
    "number": 3,
    "process": "handler",
    "block": "COVER_EARLY",
    "run_date": "2026-09-21",
    "scheduled_day": "2026-09-21",
    "script_language": "shell",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "result": '{"n":1}',
    "catalogue": "0123456789abcdef0123456789abcdef",
    "why": '{"code":"EXECUTOR_FULL","facts":{"number":4}}',
    "whys": ['{"code":"EXECUTOR_DRAINING"}'],
    "busy_jobs": {7: "it runs"},
    "underway": {7: [105]},
    "times": [[1, NOW_MS]],
    "found": [2],
    "ailments": ["JOURNAL", "DISK"],
}


def filled(kind: type[Any], **given: Any) -> Any:
    """Return a message that has a value in every field, as far as possible not the default."""
    found = {}
    for number, field in enumerate(msgspec.structs.fields(kind), start=11):
        if field.name in given:
            found[field.name] = given[field.name]
        elif field.name in GIVEN:
            found[field.name] = GIVEN[field.name]
        else:
            found[field.name] = _value(field, number)
    return msgspec.convert(found, kind, strict=False)


def least(message: Any) -> Any:
    """Return a message that has only what it must have."""
    kind = type(message)
    needed = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(**{name: getattr(message, name) for name in needed})


def _value(field: Any, number: int) -> Any:
    kind = msgspec.inspect.type_info(field.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    match kind:
        case msgspec.inspect.BoolType():
            return field.default is not True
        case msgspec.inspect.IntType():
            return 2 if field.name == "priority" else number
        case msgspec.inspect.FloatType():
            return number + 0.5
        case msgspec.inspect.StrType():
            return f"{field.name} 中文"
        case msgspec.inspect.VarTupleType() | msgspec.inspect.DictType():
            return field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    raise TypeError(f"expected a value for {field.name} to be given: {kind}")


def reports() -> list[Any]:
    """Return reports of each kind, with all of their fields and with few."""
    found = []
    for kind in get_args(to_scheduler.Report):
        whole = filled(kind, run_id=100 + len(found), outcome=values.Outcome.SKIPPED)
        found += [whole, least(whole)]
    return found


def to_executors() -> Iterator[Any]:
    trigger = filled(to_executor.Trigger, run_id=105)
    yield trigger
    yield packed([encode(trigger), encode(least(trigger))])
    for kind in get_args(to_executor.Command):
        yield filled(kind, asked=[105, 106], open_ids=[106])
    keys = [to_executor.RunKey(run_id=105, boot_id=BOOT)]
    for kind in get_args(to_executor.Question):
        yield filled(kind, runs=keys, job_ids=[7, 8])


def to_schedulers() -> Iterator[Any]:
    for kind in get_args(to_scheduler.Answer):
        yield filled(kind, runs=dict(enumerate(to_scheduler.Knowledge, start=101)))
    progress = {105: filled(values.Progress)}
    facts = filled(catalogue.HandlerFacts)
    contents = msgspec.json.encode(
        filled(catalogue.Catalogue, handlers=[facts], languages=["shell"], missing=["php"])
    )
    load = filled(to_scheduler.Load)
    for kind in get_args(to_scheduler.ToScheduler):
        if kind in get_args(to_scheduler.Answer):
            continue
        runs = {"runs": progress, "run_ids": [105], "load": load, "reports": reports()}
        if kind is catalogue.CatalogueAnswer:
            boot = {"app": APP, "address": ADDRESS, "boot_id": BOOT}
            yield kind(**boot, contents=msgspec.Raw(contents))
        else:
            yield filled(kind, **runs)


def line_of(message: Any, direction: Direction) -> bytes:
    """Return a sealed message as a line, with what 0.1.0 reads in it."""
    address = message.node if isinstance(message, to_scheduler.Canary) else ADDRESS
    app = NO_APP if isinstance(message, to_scheduler.Canary) else APP
    outgoing = Sealer(ClusterKeys(SECRET), CLUSTER, lambda: NOW_MS).seal(
        message,
        exchange="",
        routing_key="a-queue",
        app=app,
        address=address,
        direction=direction,
        valid_seconds=60.0,
    )
    read = {
        field.encode_name: msgspec.to_builtins(getattr(message, field.name), str_keys=True)
        for field in msgspec.structs.fields(type(message))
        if field.name not in {"contents", "triggers"}  # raw JSON, which is compared as it is
    }
    line = {
        "direction": direction,
        "headers": outgoing.headers,
        "body": outgoing.body.decode(),
        "read": read,
    }
    return json.dumps(line, ensure_ascii=False).encode()


def write_messages(path: Path) -> None:
    lines = []
    for direction, messages in (
        (Direction.TO_EXECUTOR, to_executors()),
        (Direction.FROM_EXECUTOR, to_schedulers()),
    ):
        for message in messages:
            lines.append(line_of(message, direction))
            smaller = message if isinstance(message, to_executor.Triggers) else least(message)
            if smaller != message:
                lines.append(line_of(smaller, direction))
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def write_reasons(path: Path) -> None:
    """Write each reason as columns, messages and journals hold it, and its sentence beside it."""
    reasons = [why(**dict.fromkeys(sorted(places(why)), "a fact")) for why in Why]
    path.write_text("".join(f"{to_json(reason)}\n" for reason in reasons))
    path.with_name("sentences.txt").write_text("".join(f"{reason}\n" for reason in reasons))


def write_state(folder: Path) -> None:
    """Leave what an executor that was killed leaves: its journal and its begin notes."""
    folder.mkdir()
    linux.host_boot = lambda: "host-boot-old"
    notes = OldNotes(folder / "begun")
    states = RunStates(Journal(folder / "journal"), structlog.get_logger(), notes=notes)
    states.begin("boot-older", NOW_MS - 8_000_000)
    for run_id in (11, 12):
        states.accept(run_id)
        states.finish(_finished(run_id, "boot-older", NOW_MS - 7_999_000))
    states.confirm((11, 12), NOW_MS - 7_999_000)
    states.begin(BOOT, NOW_MS)
    for run_id in range(101, 110):
        states.accept(run_id)
    for run_id in (101, 102, 103):
        states.start(records.Starting(run_id=run_id, at_ms=NOW_MS + 1_000, host_at_ms=NOW_MS))
    states.finish(_finished(101, BOOT, NOW_MS + 2_000))
    states.finish(_finished(102, BOOT, NOW_MS + 2_000))
    states.confirm((101,), NOW_MS + 2_100)
    # Its reports of before are forgotten by now, as after an hour; ids are kept.
    states.compact(NOW_MS + 2_200)
    states.reserve((104, 105, 106, 107))
    states.start(records.Starting(run_id=104, at_ms=NOW_MS + 3_000))
    states.hand_over((104, 105, 106))
    trigger = filled(to_executor.Trigger, run_id=108, boot_id=BOOT)
    states.start(records.Starting(run_id=108, at_ms=NOW_MS + 3_000, trigger=trigger))
    for number in (1, 2):
        states.call(filled(to_scheduler.Called, run_id=103, boot_id=BOOT, number=number))
    states.confirm_calls(((103, 1),))
    never = to_scheduler.NotStarted(run_id=109, boot_id=BOOT, reason="no room", is_full=True)
    states.finish(never)
    states.commit()
    notes.path_of(BOOT).mkdir(parents=True)
    file = make_note(notes.path_of(BOOT) / "0")
    begin_note = BeginNote(file)
    if not (begin_note.begin(1, 104) and begin_note.begin(1, 105)):
        raise OSError("the note was not written")
    os.close(file)


def _finished(run_id: int, boot_id: str, at_ms: int) -> Any:
    times = {"started_at_ms": at_ms - 500, "due_at_ms": at_ms - 600, "finished_at_ms": at_ms}
    outcome = values.Outcome.SUCCEEDED
    return filled(to_scheduler.Finished, run_id=run_id, boot_id=boot_id, outcome=outcome, **times)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_messages(target / "messages.jsonl")
    write_reasons(target / "reasons.jsonl")
    write_state(target / ADDRESS)
