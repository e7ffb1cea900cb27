"""What the benchmark of growth is asked for, and what it says of its figures."""

import sys

import pytest

from benchmarks.growth.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "nothing"), "argument --only: invalid choice: 'nothing'"),
        (("--fast",), "unrecognized arguments: --fast"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["growth", *arguments])

    with pytest.raises(SystemExit, match="2"):
        main()

    [line] = capsys.readouterr().err.splitlines()
    assert words in line
