"""A fake requester for the console: every run's log is the same text."""

from collections.abc import Sequence
from typing import cast

from warren.broker.messages import LogChunk, ReadLog
from warren.broker.rpc import AddressedQuestion


class FixedLogs:
    """Answers at once with the whole text from any line on; an empty text has no lines.

    With `is_missing`, it answers that the log is no longer there.
    """

    def __init__(self, text: str, *, is_missing: bool = False) -> None:
        self.text = text
        self.is_missing = is_missing

    def ask(self, questions: Sequence[AddressedQuestion], _timeout: float) -> list[LogChunk | None]:
        """Answer one question."""
        (_, address, boot_id), build = questions[0]
        question = cast("ReadLog", build("q", "answer.console"))
        chunk = LogChunk(
            question_id="q",
            address=address,
            boot_id=boot_id,
            run_id=question.run_id,
            from_line=question.from_line,
            to_line=question.from_line + self.text.count("\n") - (not self.text),
            text=self.text,
            is_end=True,
            missing=self.is_missing,
        )
        return [chunk]
