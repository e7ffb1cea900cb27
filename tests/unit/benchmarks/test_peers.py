"""What the comparison with peers needs before it begins."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers import __main__ as peers


def test_without_the_peers_environment_one_line_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers"])

    with pytest.raises(SystemExit, match="2"):
        peers.main(tmp_path / "nowhere")

    [line] = capsys.readouterr().err.splitlines()
    assert "run: make bench-peers" in line
