"""Fake requesters for the console: every run's log is the same text, or lines with times."""

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


class TimedLogs:
    """Answers with the lines of each run's log, which are pairs of epoch milliseconds and a text.

    Tests add lines to `of_run` while the console reads. The logs of the runs in `gone` are no
    longer there.
    """

    def __init__(self) -> None:
        self.of_run: dict[int, list[tuple[int, str]]] = {}
        self.gone: set[int] = set()

    def ask(self, questions: Sequence[AddressedQuestion], _timeout: float) -> list[LogChunk | None]:
        """Answer one question."""
        (_, address, boot_id), build = questions[0]
        question = cast("ReadLog", build("q", "answer.console"))
        lines = self.of_run.get(question.run_id, [])
        first = max(1, len(lines) - question.limit + 1) if question.at_end else question.from_line
        part = lines[first - 1 : first - 1 + question.limit]
        last = first + len(part) - 1
        chunk = LogChunk(
            question_id="q",
            address=address,
            boot_id=boot_id,
            run_id=question.run_id,
            from_line=first,
            to_line=last,
            text="\n".join(text for _, text in part),
            is_end=last >= len(lines),
            times=tuple((first + place, at_ms) for place, (at_ms, _) in enumerate(part)),
            missing=question.run_id in self.gone,
        )
        return [chunk]
