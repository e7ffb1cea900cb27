"""What `warren check` prints."""

import contextlib
import io
from pathlib import Path

import pytest

from warren.command_line.check import check


class GonePipe(io.StringIO):
    """Standard output whose reader has ended."""

    def write(self, _text: str, /) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_that_has_gone_is_no_failure_of_each_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--for", "executor", "--state-dir", str(tmp_path), "--log-dir", str(tmp_path)]

    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(GonePipe()):
        check.main(arguments)

    assert "Broken pipe" not in capsys.readouterr().err
