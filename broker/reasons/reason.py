"""A reason as a value: a sentence and the facts for its placeholders.

`str` of a reason is the English sentence. To show it in another language, translate the sentence
and fill in the same facts.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Sentence(Enum):
    """Base of codes: a member's value is its sentence, with placeholders like `%(name)s`."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence  # reading an enum's value takes three times as long

    def __call__(self, **facts: "Fact") -> "Reason":
        """Return this reason with the facts of one case, one for each placeholder."""
        return Reason(self, facts)


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence's code and its facts; several reasons in one fact are joined by semicolons."""

    code: Sentence
    facts: dict[str, "Fact"] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the sentence in English."""
        facts = self.facts
        for name, fact in facts.items():
            if type(fact) is tuple:
                facts = facts | {name: "; ".join(map(str, fact))}
        return self.code.sentence % facts


#: A reason, or a text from elsewhere: a job, an operating system, another version of Warren.
Words: TypeAlias = Reason | str
#: What a placeholder can hold.
Fact: TypeAlias = Words | int | float | tuple[Words, ...]
