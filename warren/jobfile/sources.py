"""Job files and files of values as they are given: their names and texts, in order; and escapes.

Nothing here understands YAML, so that the base installation can send them to an API.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from warren.errors import InvalidEntry, JobFileError, Line
from warren.resources.job_files import JOB_FILE_BYTES, JobFileText, ValuesGiven

_STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml")
#: The name in `${NAME}`, as a regular expression.
VALUE_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_PLACE = re.compile(rf"\$\{{({VALUE_NAME})\}}")


class Source(JobFileText, frozen=True):
    """A file: its name in messages, and its text."""

    def at(self, line: Line) -> str:
        """Return what one of its lines is called in messages."""
        if not self.places:
            return line.place
        return self.places[line - 1] if 0 < line <= len(self.places) else self.name


class GivenValues(ValuesGiven, kw_only=True, frozen=True):
    """The same, with what the texts are called in messages, `option`, and how to give a value."""

    option: str = "--set"
    ways: str = "--values or --set {name}=…"


NO_VALUES = GivenValues()


def read_sources(paths: Sequence[Path]) -> list[Source]:
    """Return the job files at these paths, in order; `-` is standard input.

    A folder stands for its files `NAME.yaml` and `NAME.yml` by name. Those with another dot in
    their names, such as `jobs.prod.yaml`, are for one environment, so they have to be named.

    Raises:
        JobFileError: one cannot be read, is no UTF-8, or they are larger than job files may be.

    """
    sources = [_read(path) for path in _files(paths)]
    if sum(len(source.text) for source in sources) > JOB_FILE_BYTES:
        words = f"expected files of up to {JOB_FILE_BYTES} bytes together, got more"
        raise JobFileError([f"{sources[-1].name}: {words}"])
    return sources


def read_values(paths: Sequence[Path], texts: Sequence[str]) -> GivenValues:
    """Return the files of values at these paths, and texts like `NAME=VALUE`.

    Raises:
        JobFileError: a file cannot be read.

    """
    return GivenValues(files=[_read(path) for path in paths], texts=list(texts))


def values_of(values: Mapping[str, object], ways: str) -> GivenValues:
    """Return values by name that come from no command line; `ways` says how they are given."""
    texts = [f"{name}={value}" for name, value in values.items()]
    return GivenValues(texts=texts, option="values", ways=ways)


def decoded(data: bytes, name: str) -> str:
    """Return the text of a file.

    Raises:
        JobFileError: it is not UTF-8.

    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        words = f"expected UTF-8, got the byte 0x{data[error.start]:02x}"
        raise _wrong(Line(line, name), words) from error


def read_whole(file: BinaryIO, name: str) -> bytes:
    """Return the content of a file.

    Raises:
        JobFileError: it is larger than a job file may be.

    """
    data = file.read(JOB_FILE_BYTES + 1)
    if len(data) > JOB_FILE_BYTES:
        words = f"expected a file of up to {JOB_FILE_BYTES} bytes, got a larger one"
        raise _wrong(Line(0, name), words)
    return data


def _wrong(line: Line, words: str) -> JobFileError:
    problem = InvalidEntry(line, words)
    return JobFileError([str(problem)], [problem])


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        files = sorted(
            file
            for file in path.iterdir()
            if file.suffix in _SUFFIXES and "." not in file.stem and file.is_file()
        )
        if not files:
            raise JobFileError([f"cannot read {path}: no job file like NAME.yaml is in it"])
        yield from files


def _read(path: Path) -> Source:
    if str(path) == _STANDARD_INPUT:
        name = "standard input"
        return Source(name, decoded(read_whole(sys.stdin.buffer, name), name))
    try:
        with path.open("rb") as file:
            return Source(str(path), decoded(read_whole(file, str(path)), str(path)))
    except OSError as error:
        raise JobFileError([f"cannot read {path}: {error.strerror or error}"]) from error


def escape_places(text: str) -> str:
    """Return how a job file writes a text that has `${NAME}` in it."""
    return _PLACE.sub(r"$${\1}", text)


def escape_unseen(quoted: str) -> str:
    """Return JSON as YAML reads it: what is invisible or forbidden there is escaped."""
    return "".join(_escaped(c) if is_unseen(c) else c for c in quoted)


def is_unseen(character: str) -> bool:
    """Whether a character is invisible, forbidden in YAML, or a line break to YAML."""
    return character != " " and unicodedata.category(character)[0] in "CZ"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits
