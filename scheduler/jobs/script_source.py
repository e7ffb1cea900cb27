"""Checks the source of a script, and normalizes it for storage."""

import re

import msgspec

from warren.broker.messages.values import ScriptLanguage
from warren.scheduler.problems import Code, Problem

#: Longest source, in bytes of UTF-8.
SOURCE_BYTES = 524_288
#: Longest source in a message, in bytes of JSON, where quotes and line feeds take two bytes. A
#: message may have 1,000,000 bytes, so this leaves room for a parameter of 64 kB, escaped too.
MESSAGE_BYTES = 800_000
REMARK_LENGTH = 128

_BYTE_ORDER_MARK = "\ufeff"
_LINE_END = re.compile(r"\r+\n")


def check_source(source: str) -> None:
    """Raise Problem if a source is empty, too long, or has characters that no script may have."""
    if not source.strip():
        raise Problem(Code.SOURCE_EMPTY, "script/source")
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise Problem(Code.SOURCE_NUL, "script/source", line=line)
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise Problem(Code.SOURCE_SURROGATE, "script/source") from error
    if size > SOURCE_BYTES:
        raise Problem(Code.SOURCE_TOO_LONG, "script/source", most=SOURCE_BYTES, got=size)
    size = len(msgspec.json.encode(source))
    if size > MESSAGE_BYTES:
        raise Problem(Code.SOURCE_MESSAGE_TOO_LONG, "script/source", most=MESSAGE_BYTES, got=size)


def normal_source(language: str, source: str) -> str:
    r"""Return a source with plain line feeds and no byte order mark; PowerShell's unchanged.

    A shell takes `\r` as part of the command, and PHP prints a byte order mark. PowerShell
    accepts both, and its older versions need the mark.
    """
    if language == ScriptLanguage.POWERSHELL:
        return source
    # Idempotent, so that an exported source compares as unchanged.
    return _LINE_END.sub("\n", source.lstrip(_BYTE_ORDER_MARK))
