"""What the source of a script may be, and the form in which it is kept."""

import re

import msgspec

from broker.messages import ScriptLanguage

#: Longest source, in bytes of UTF-8.
SOURCE_BYTES = 524_288
#: Longest source as it stands in a message, where quotes and line feeds take two bytes: of the
#: 1,000,000 bytes of a message this leaves a parameter of 64 kB room, and its own quotes too.
MESSAGE_BYTES = 800_000
REMARK_LENGTH = 128

_BYTE_ORDER_MARK = "\ufeff"
_LINE_END = re.compile(r"\r+\n")


def check_source(source: str) -> None:
    """Raise ValueError unless this can be a script."""
    if not source.strip():
        raise ValueError("expected source to be a script, got: nothing")
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise ValueError(f"expected source to be text, got: a NUL in its line {line}")
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise ValueError("expected source to be text, got: half of a character") from error
    if size > SOURCE_BYTES:
        raise ValueError(f"expected source to be up to {SOURCE_BYTES} bytes, got: {size} bytes")
    size = len(msgspec.json.encode(source))
    if size > MESSAGE_BYTES:
        raise ValueError(
            f"expected source to take up to {MESSAGE_BYTES} bytes in a message, got: {size} bytes"
        )


def normal_source(language: str, source: str) -> str:
    r"""Return a source with plain line feeds and no byte order mark; PowerShell's as it is.

    A shell takes `\r` for part of the command, and PHP prints a byte order mark; PowerShell lives
    well with both, and an older one needs the mark.
    """
    if language == ScriptLanguage.POWERSHELL:
        return source
    # Twice makes no difference, so that what is exported is found unchanged.
    return _LINE_END.sub("\n", source.lstrip(_BYTE_ORDER_MARK))
