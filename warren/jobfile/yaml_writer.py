"""Writes texts as readable YAML that is read back as exactly the same text."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

INDENT = 2

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*", re.ASCII)
_STR_TAG = "tag:yaml.org,2002:str"
_RESOLVER: Any = yaml.resolver.Resolver()

#: A value of a flow mapping.
Inline = str | int | bool | Sequence[str]


def scalar(text: str) -> str:
    """Return a text on one line, quoted if necessary.

    `on`, `1.0` and `null` need quotes: YAML reads them as other types.
    """
    if _PLAIN.fullmatch(text) and _is_text(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(_escaped(c) if _is_unseen(c) else c for c in quoted)


def inline(value: Inline) -> str:
    """Return a value for a flow mapping or list."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return scalar(value)
    if isinstance(value, int):
        return str(value)
    return f"[{', '.join(map(scalar, value))}]"


def braces(values: Mapping[str, Inline]) -> str:
    """Return a mapping on one line."""
    return f"{{{', '.join(f'{name}: {inline(value)}' for name, value in values.items())}}}"


def text_field(name: str, text: str, indent: int) -> Iterable[str]:
    """Return the lines of a field; a text of several lines becomes a block if possible."""
    margin = " " * indent
    if "\n" in text and not any(_is_unseen(c) for c in text if c not in "\n\t"):
        header, *lines = _block(text)
        if _read_back([header, *lines]) == text:
            return [
                f"{margin}{name}: {header}",
                *(f"{margin}{line}" if line else "" for line in lines),
            ]
    return [f"{margin}{name}: {scalar(text)}"]


def _block(text: str) -> list[str]:
    """Return the header and the lines of a literal block, for a field at column 0."""
    ends = len(text) - len(text.rstrip("\n"))
    # Needed if the first line begins with white space, as that line determines the indentation.
    width = str(INDENT) if text[0] in " \t\n" else ""
    chomping = {0: "-", 1: ""}.get(ends, "+")
    lines = text.removesuffix("\n").split("\n")
    margin = " " * INDENT
    return [f"|{width}{chomping}", *(f"{margin}{line}" if line else "" for line in lines)]


def _read_back(block: Sequence[str]) -> str | None:
    try:
        root = yaml.compose("\n".join([f"x: {block[0]}", *block[1:], ""]), yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return str(root.value[0][1].value) if root else None


def _is_text(plain: str) -> bool:
    return bool(_RESOLVER.resolve(yaml.ScalarNode, plain, (True, False)) == _STR_TAG)


def _is_unseen(character: str) -> bool:
    """Whether a character is invisible, forbidden in YAML, or a line break to YAML."""
    return character != " " and unicodedata.category(character)[0] in "CZ"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits
