"""What is kept as written by 0.1.0 is what its code writes."""

import filecmp
from pathlib import Path

from tests.support import first_release


def test_the_data_of_0_1_0_is_what_its_code_writes(tmp_path: Path) -> None:
    code = first_release.extract(tmp_path / "code")
    (written := tmp_path / "written").mkdir()

    first_release.write_samples(code, written)

    files = [path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()]
    kept = [path for path in first_release.DATA.rglob("*") if path.is_file()]
    same, *others = filecmp.cmpfiles(written, first_release.DATA, files, shallow=False)
    assert others == [[], []]
    assert len(same) == len(kept)
