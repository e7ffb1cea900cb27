"""The statements of a dump that create tables and insert rows."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from warren.importing.dump.lexer import Data, Kind, Token, Tokens

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
