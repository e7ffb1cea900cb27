"""Reasons as JSON, in messages and in rows, which also hold the English text.

Apart from `reasons`, which users' handlers load, and which imports the standard library only.

Reading never fails: a reason that is too long, invalid or unknown to this version is ignored, and
the English text is shown as it is.
"""

import re
from functools import cache
from typing import Annotated, Any

import msgspec

from warren.broker.reasons import Fact, Reason, Sentence, Why, Words

#: The longest reason, in characters of JSON, and how deep reasons may be nested.
REASON_LIMIT = 8_000
DEPTH_LIMIT = 8
_Integer = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
_NESTED = (Reason, tuple)
_PLACE = re.compile(r"%\((\w+)\)[rs]")


class _Plain(msgspec.Struct):
    code: str
    facts: "dict[str, str | _Integer | float | _Plain | list[str | _Plain]]" = {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Plain)


def to_json(words: Words) -> str:
    """Return a reason as JSON; "" for a plain text, and for a reason that is too long to keep."""
    if not isinstance(words, Reason):
        return ""
    try:
        text = _encoder.encode(_plain(words)).decode()
    except UnicodeEncodeError:  # a lone surrogate, such as in a file's name
        return ""
    return text if len(text) <= REASON_LIMIT else ""


def from_json(text: str | None) -> Reason | None:
    """Return the reason in a JSON text; None if this version does not know it."""
    if not text or len(text) > REASON_LIMIT:
        return None
    try:
        return _reason(_decoder.decode(text), DEPTH_LIMIT)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, ValueError):
        return None


def places(code: Sentence) -> frozenset[str]:
    """Return the names of the placeholders in a code's sentence."""
    return _places(code.sentence)


@cache
def _places(sentence: str) -> frozenset[str]:
    return frozenset(_PLACE.findall(sentence))


def _plain(fact: Fact) -> Any:
    if isinstance(fact, Reason):
        facts = fact.facts
        for name, inner in facts.items():
            if type(inner) in _NESTED:
                facts = facts | {name: _plain(inner)}
        return {"code": fact.code.name, "facts": facts} if facts else {"code": fact.code.name}
    return list(map(_plain, fact)) if isinstance(fact, tuple) else fact


def _reason(plain: _Plain, depth: int) -> Reason:
    code = Why[plain.code]
    if not depth or plain.facts.keys() not in (places(code), _places(code.before)):
        raise ValueError(f"expected the facts of {code.name}, got: {plain.facts.keys()}")
    return Reason(code, {name: _fact(fact, depth - 1) for name, fact in plain.facts.items()})


def _fact(plain: Any, depth: int) -> Any:
    if isinstance(plain, list):
        return tuple(_fact(part, depth) for part in plain)
    return _reason(plain, depth) if isinstance(plain, _Plain) else plain
