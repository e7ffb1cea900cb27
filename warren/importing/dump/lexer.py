"""Splits a dump into tokens: strings with escapes, names, numbers, signs.

Comments that a server would execute (`/*!40101 … */`) are read like the rest. Positions are in
bytes.
"""

import re
from collections.abc import Iterator
from enum import Enum
from mmap import mmap
from typing import NamedTuple

from warren.errors import CommandError

_STRING = rb"'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\""
_COMMENT = rb"--(?=\s|\Z)[^\n]*+|\#[^\n]*+|/\*(?!M?!).*?\*/"
_TOKEN = re.compile(
    rb"""
      (?P<skip> \s++ | /\*M!999999\\-[^*]*+\*/ | """
    + _COMMENT
    + rb""" | /\*M?!\d*+ | \*/ )
    | (?P<hex> 0x[0-9A-Fa-f]++ | [xX]'[0-9A-Fa-f]*+' )
    | (?P<string> """
    + _STRING
    + rb""" )
    | (?P<name> `(?:[^`]++|``)*+` )
    | (?P<sign> [(),;.=] )
    | (?P<unended> ['"`] | /\*(?!M?!) )
    | (?P<word> [^\s'"`(),;.=/*]++(?:\.[0-9]++)?+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
#: The rest of a statement that is skipped.
_REST = re.compile(
    rb"(?:[^'\"`;#/-]++|" + _STRING + rb"|`(?:[^`]++|``)*+`|" + _COMMENT + rb"|[#/-])*+;",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPED = {
    b"0": b"\0",
    b"b": b"\b",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"Z": b"\x1a",
    b"%": b"\\%",
    b"_": b"\\_",
}

Data = bytes | mmap


class Kind(Enum):
    """The kind of a token."""

    HEX = "hex"
    STRING = "string"
    NAME = "name"
    SIGN = "sign"
    WORD = "word"


class Token(NamedTuple):
    """One token: its kind, its bytes without quotes and escapes, and where it begins."""

    kind: Kind
    value: bytes
    at: int

    @property
    def text(self) -> str:
        """The token as text."""
        return self.value.decode(errors="replace")

    def is_word(self, *words: bytes) -> bool:
        """Whether it is one of these keywords, in any case."""
        return self.kind is Kind.WORD and self.value.upper() in words

    def is_sign(self, sign: bytes) -> bool:
        """Whether it is this sign."""
        return self.kind is Kind.SIGN and self.value == sign


class Tokens:
    """Yields the tokens of a dump."""

    def __init__(self, data: Data, name: str) -> None:
        self._data = data
        self._name = name
        self.position = 0

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        while True:
            match = _TOKEN.match(self._data, self.position)
            if match is None:
                raise StopIteration
            if match.lastgroup == "unended":
                raise self.fault("a text has no end; the dump seems to be cut", match.start())
            self.position = match.end()
            if match.lastgroup != "skip":
                kind = Kind(match.lastgroup)
                return Token(kind, _value(kind, match.group()), match.start())

    def needed(self) -> Token:
        """Return the next token of a statement.

        Raises:
            CommandError: the dump ends within the statement.

        """
        token = next(self, None)
        if token is None:
            raise self.fault("a statement has no end; the dump seems to be cut", len(self._data))
        return token

    def skip_statement(self) -> None:
        """Skip the rest of this statement.

        Raises:
            CommandError: the dump ends within it.

        """
        match = _REST.match(self._data, self.position)
        if match is not None:
            self.position = match.end()
            return
        for token in self:
            if token.is_sign(b";"):
                return
        raise self.fault("a statement has no end; the dump seems to be cut", len(self._data))

    def fault(self, words: str, at: int) -> CommandError:
        """Return an error that names the line."""
        line = self._data[:at].count(b"\n") + 1
        return CommandError(f"{self._name}, line {line}: {words}")


def _value(kind: Kind, raw: bytes) -> bytes:
    if kind is Kind.STRING:
        text = raw[1:-1]
        if raw[:1] == b'"':
            text = text.replace(b'""', b'"')
            return re.sub(rb"\\(.)", _unescaped, text, flags=re.DOTALL)
        return _ESCAPE.sub(_unescaped, text) if b"\\" in text or b"''" in text else text
    if kind is Kind.NAME:
        return raw[1:-1].replace(b"``", b"`")
    if kind is Kind.HEX:
        digits = raw[2:].strip(b"'").decode()
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    return raw


def _unescaped(match: re.Match[bytes]) -> bytes:
    escaped = match.group(1)
    return b"'" if escaped is None else _ESCAPED.get(escaped, escaped)
