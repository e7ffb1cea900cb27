"""What an executor can run: its handlers, script languages and code version.

Heartbeats carry only its fingerprint, so a catalogue travels once, however many boots share it.
"""

from typing import Annotated

import msgspec

from warren.broker.messages.values import Address, AppName, BootId, Message, Natural
from warren.broker.process_use import ProcessUse

#: The most handlers that a catalogue names, and the most characters that describe one.
HANDLER_LIMIT = 10_000
ABOUT_LIMIT = 200
#: The largest JSON Schema of a handler's params, in bytes.
SCHEMA_BYTES = 65_536
CODE_VERSION_LIMIT = 64

_Name = Annotated[str, msgspec.Meta(max_length=255)]
Fingerprint = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{32})?\Z")]
CodeVersion = Annotated[str, msgspec.Meta(max_length=CODE_VERSION_LIMIT)]


class HandlerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A handler: its name, the first line of its docstring, its module, and the line there.

    `process`: which runs a process serves unless the job decides; None = the executor's default.
    `schema` is the JSON Schema of its params; "" = it has none, or the schema was too large.
    """

    name: _Name
    about: Annotated[str, msgspec.Meta(max_length=ABOUT_LIMIT)] = ""
    module: _Name = ""
    line: Natural = 0
    process: ProcessUse | None = None
    schema: Annotated[str, msgspec.Meta(max_length=SCHEMA_BYTES)] = ""


class Catalogue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an executor can run.

    `has_more`: some handlers did not fit in. `languages`: the script languages that are allowed and
    whose interpreters were found; `missing`: those allowed, but without an interpreter.
    """

    handlers: Annotated[tuple[HandlerFacts, ...], msgspec.Meta(max_length=HANDLER_LIMIT)] = ()
    has_more: bool = False
    languages: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)] = ()
    missing: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)] = ()
    code_version: CodeVersion = ""


class CatalogueAnswer(Message, frozen=True, kw_only=True):
    """Answers a `Welcome` that asks for it; all schedulers receive it.

    `contents` is the JSON of a `Catalogue`, whose fingerprint is that of these bytes.
    """

    app: AppName
    address: Address
    boot_id: BootId
    contents: msgspec.Raw
