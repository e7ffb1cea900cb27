"""Reads files written by mysqldump and mariadb-dump without a server: their tables and rows.

Comments that a server would execute (`/*!40101 … */`) are read like the rest. Positions are in
bytes.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
_NO_COLUMNS = (
    b"PRIMARY",
    b"KEY",
    b"UNIQUE",
    b"INDEX",
    b"FULLTEXT",
    b"SPATIAL",
    b"CONSTRAINT",
    b"CHECK",
    b"FOREIGN",
    b"PERIOD",
)
#: Functions, written with or without parentheses.
_NOW = (b"NOW", b"CURRENT_TIMESTAMP", b"SYSDATE", b"LOCALTIME", b"LOCALTIMESTAMP")
_CHARSETS = (b"UTF8", b"UTF8MB3", b"UTF8MB4", b"BINARY")


class Kind(Enum):
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
        return self.value.decode(errors="replace")

    def is_word(self, *words: bytes) -> bool:
        """Whether it is one of these keywords, in any case."""
        return self.kind is Kind.WORD and self.value.upper() in words

    def is_sign(self, sign: bytes) -> bool:
        return self.kind is Kind.SIGN and self.value == sign


class Tokens:
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


@dataclass(frozen=True, slots=True)
class TableMade:
    """A table with its columns in order; `next_id` is its AUTO_INCREMENT, 0 = not given."""

    database: str
    name: str
    columns: tuple[str, ...]
    next_id: int


@dataclass(frozen=True, slots=True)
class RowInserted:
    """A row of a table, with all values as text."""

    table: str
    values: Mapping[str, str | None]


class Statements:
    """Reads a dump statement by statement.

    Args:
        data: the dump.
        name: what error messages call it.
        wanted: the tables whose rows are read; skipping the others is quick.

    """

    def __init__(self, data: Data, name: str, wanted: Collection[str]) -> None:
        self._tokens = Tokens(data, name)
        self._wanted = set(wanted)
        self._columns: dict[str, tuple[str, ...]] = {}
        self._database = ""
        #: The character set that the dump was written in; empty if it does not say.
        self.charset = ""

    def __iter__(self) -> Iterator[TableMade | RowInserted]:
        """Yield tables and rows in the order of the dump.

        Raises:
            CommandError: the dump is incomplete or cannot be read; names the line.

        """
        for token in self._tokens:
            if token.is_word(b"CREATE"):
                yield from self._create()
            elif token.is_word(b"INSERT", b"REPLACE"):
                yield from self._insert()
            elif token.is_word(b"USE"):
                self._database = self._tokens.needed().text
                self._tokens.skip_statement()
            elif token.is_word(b"SET"):
                self._set()
            elif not token.is_sign(b";"):
                self._tokens.skip_statement()

    def _set(self) -> None:
        token = self._tokens.needed()
        if token.is_word(b"NAMES"):
            charset = self._tokens.needed()
            self.charset = charset.text.lower()
            if charset.value.upper() not in _CHARSETS:
                words = f"expected a dump in UTF-8, got: {charset.text}"
                raise self._tokens.fault(words, charset.at)
        if not token.is_sign(b";"):
            self._tokens.skip_statement()

    def _create(self) -> Iterator[TableMade]:
        token = self._tokens.needed()
        if not token.is_word(b"TABLE"):
            if not token.is_sign(b";"):
                self._tokens.skip_statement()
            return
        token = self._tokens.needed()
        while token.is_word(b"IF", b"NOT", b"EXISTS"):
            token = self._tokens.needed()
        database, name, token = self._name(token)
        if not token.is_sign(b"("):
            self._tokens.skip_statement()
            return
        columns = tuple(self._described_columns())
        self._columns[name] = columns
        yield TableMade(database, name, columns, self._next_id())

    def _described_columns(self) -> Iterator[str]:
        depth, is_first = 1, True
        while depth:
            token = self._tokens.needed()
            if (
                is_first
                and token.kind in (Kind.NAME, Kind.WORD)
                and not token.is_word(*_NO_COLUMNS)
            ):
                yield token.text
            is_first = depth == 1 and token.is_sign(b",")
            depth += token.is_sign(b"(") - token.is_sign(b")")

    def _next_id(self) -> int:
        """Return the AUTO_INCREMENT in the options at the end of the statement; 0 = none."""
        highest = 0
        while not (token := self._tokens.needed()).is_sign(b";"):
            if token.is_word(b"AUTO_INCREMENT"):
                while not (token := self._tokens.needed()).is_sign(b";"):
                    if token.value.isdigit():
                        highest = int(token.value)
                        break
                else:
                    break
        return highest

    def _insert(self) -> Iterator[RowInserted]:
        token = self._tokens.needed()
        while token.is_word(b"INTO", b"IGNORE", b"DELAYED", b"LOW_PRIORITY"):
            token = self._tokens.needed()
        began_at = token.at
        _, name, token = self._name(token)
        if name not in self._wanted:
            self._tokens.skip_statement()
            return
        columns = self._columns.get(name, ())
        if token.is_sign(b"("):
            columns = tuple(self._listed_columns())
            token = self._tokens.needed()
        if not columns:
            words = f"rows of {name} without its columns; dump it with CREATE TABLE"
            raise self._tokens.fault(words, began_at)
        if not token.is_word(b"VALUES", b"VALUE"):
            raise self._tokens.fault(f"expected VALUES, got: {token.text[:40]}", token.at)
        yield from self._rows(name, columns)

    def _rows(self, name: str, columns: tuple[str, ...]) -> Iterator[RowInserted]:
        while not (token := self._tokens.needed()).is_sign(b";"):
            if not token.is_sign(b"("):
                continue  # a comma
            values = list(self._values())
            if len(values) != len(columns):
                words = f"{name} has {len(columns)} columns, a row has {len(values)} values"
                raise self._tokens.fault(words, token.at)
            yield RowInserted(name, dict(zip(columns, values, strict=True)))

    def _values(self) -> Iterator[str | None]:
        """Yield the values up to the closing parenthesis."""
        parts: list[Token] = []
        while True:
            token = self._tokens.needed()
            if token.is_sign(b"(") and parts and parts[-1].is_word(*_NOW):
                while not token.is_sign(b")"):
                    token = self._tokens.needed()
            elif token.is_sign(b",") or token.is_sign(b")"):
                yield self._value(parts)
                parts = []
                if token.is_sign(b")"):
                    return
            else:
                parts.append(token)

    def _value(self, parts: list[Token]) -> str | None:
        """Return a value; it may follow a character set, as in `_binary 'x'`."""
        if len(parts) == 1 and parts[0].is_word(b"NULL", *_NOW):  # nobody knows when that was
            return None
        return "".join(
            self._decoded(part)
            for part in parts
            if not (part.kind is Kind.WORD and part.value[:1] == b"_")
        )

    def _decoded(self, token: Token) -> str:
        try:
            return token.value.decode()
        except UnicodeDecodeError as error:
            got = token.value[error.start]
            words = f"expected a dump in UTF-8, got the byte 0x{got:02x}"
            raise self._tokens.fault(words, token.at) from error

    def _listed_columns(self) -> Iterator[str]:
        while not (token := self._tokens.needed()).is_sign(b")"):
            if not token.is_sign(b","):
                yield token.text

    def _name(self, token: Token) -> tuple[str, str, Token]:
        """Return a table's database and name, and the token after them."""
        after = self._tokens.needed()
        if not after.is_sign(b"."):
            return self._database, token.text, after
        return token.text, self._tokens.needed().text, self._tokens.needed()
