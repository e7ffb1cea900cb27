"""Job files as they are given: folders, standard input, what cannot be read."""

from pathlib import Path

import pytest

from warren.errors import JobFileError
from warren.jobfile.sources import Source, read_sources, read_values


def test_a_folder_stands_for_its_files_but_not_those_of_one_environment(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "a.prod.yaml", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "c.yaml").mkdir()

    sources = read_sources([tmp_path, tmp_path / "a.prod.yaml"])

    assert sources == [
        Source(str(tmp_path / name), name) for name in ("a.yml", "b.yaml", "a.prod.yaml")
    ]


def test_files_keep_the_order_in_which_they_are_given(tmp_path: Path) -> None:
    for name in ("1.yaml", "2.yaml"):
        (tmp_path / name).write_text(name)

    given = read_values([tmp_path / "2.yaml", tmp_path / "1.yaml"], ["A=1"])

    assert [source.text for source in given.files] == ["2.yaml", "1.yaml"]
    assert given.texts == ["A=1"]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_bytes(b"jobs:\n\xff\n")
    big = tmp_path / "big.yaml"
    big.write_text("#" * 3_000_000)

    for paths, words in (
        ([tmp_path / "gone.yaml"], "cannot read "),
        ([tmp_path / "wrong.yaml"], "wrong.yaml:2: expected UTF-8, got the byte 0xff"),
        ([Path("/dev/zero")], "/dev/zero: expected a file of up to 5000000 bytes, got a larger"),
        ([big, big], "expected files of up to 5000000 bytes together, got more"),
    ):
        with pytest.raises(JobFileError) as refused:
            read_sources(paths)
        assert words in refused.value.lines[0]
