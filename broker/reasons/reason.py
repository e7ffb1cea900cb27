"""A reason as a value: which sentence, and what stands in its places.

Whoever says why makes a reason, and `str` of it is the English sentence. Who shows it to readers of
another language translates the sentence and puts the same facts into it.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Sentence(Enum):
    """Base of codes: a member's value is its sentence, with places like `%(name)s` for facts."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence  # reading an enum's value takes three times as long

    def __call__(self, **facts: "Fact") -> "Reason":
        """Return this reason with the facts of one case, one for each place."""
        return Reason(self, facts)


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence's code and its facts; several reasons in one place are joined by semicolons."""

    code: Sentence
    facts: dict[str, "Fact"] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the sentence in English."""
        facts = self.facts
        for name, fact in facts.items():
            if type(fact) is tuple:
                facts = facts | {name: "; ".join(map(str, fact))}
        return self.code.sentence % facts


#: A reason, or what somebody else says: a job, an operating system, a program of another version.
Words: TypeAlias = Reason | str
#: What stands in one place of a sentence.
Fact: TypeAlias = Words | int | float | tuple[Words, ...]
