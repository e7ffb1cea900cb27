"""A dump is cut into tables and rows; one that ends in the middle is named."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.errors import CommandError
from warren.importing.dump import RowInserted, Statements, TableMade
from warren.importing.xxl_job.sources import DumpSource

TABLE = """
DROP TABLE IF EXISTS `jobs`;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `jobs` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `name` varchar(255) NOT NULL DEFAULT 'KEY (' COMMENT 'a; b, `c`',
  `we``ird` decimal(10,2) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `i_name` (`name`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=43 DEFAULT CHARSET=utf8mb4 COMMENT='AUTO_INCREMENT=7';
"""

WHOLE = TABLE + "INSERT INTO `jobs` VALUES (1,'a \\' b',0),(2,'c',1);"


def read(text: str, *wanted: str) -> list[TableMade | RowInserted]:
    return list(Statements(text.encode(), "dump.sql", wanted or ("jobs",)))


def rows(text: str) -> list[tuple[str | None, ...]]:
    return [tuple(one.values.values()) for one in read(text) if isinstance(one, RowInserted)]


def quoted(text: str) -> str:
    """Write a text as mysqldump does."""
    for plain, escaped in (
        ("\\", "\\\\"),
        ("\0", "\\0"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\x1a", "\\Z"),
        ("'", "\\'"),
        ('"', '\\"'),
    ):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def test_a_dump_that_powershell_wrote_is_told_what_to_do(tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_bytes(WHOLE.encode("utf-16"))

    with pytest.raises(CommandError, match=r"dump.sql is UTF-16.*--result-file"):
        DumpSource(dump)


def test_a_dump_in_another_character_set_is_refused_with_its_line() -> None:
    data = TABLE.encode() + "INSERT INTO `jobs` VALUES (1,'日报',0);".encode("gbk")

    with pytest.raises(CommandError, match=r"^dump.sql, line 11: expected a dump in UTF-8, got"):
        list(Statements(data, "dump.sql", ["jobs"]))


@pytest.mark.parametrize("at", [12, 40, -1])
def test_a_packed_dump_that_is_damaged_is_named(tmp_path: Path, at: int) -> None:
    packed = bytearray(gzip.compress(WHOLE.encode()))
    packed[at] ^= 0xFF
    dump = tmp_path / "dump.sql.gz"
    dump.write_bytes(packed)

    with pytest.raises(CommandError, match=r"dump.sql.gz: cannot unpack it; is it cut\?"):
        DumpSource(dump)


def test_table_has_its_columns_in_order_and_its_next_id() -> None:
    assert read(TABLE) == [TableMade("", "jobs", ("id", "name", "we`ird"), 43)]


def test_rows_of_one_statement_are_given_by_column() -> None:
    [_, first, second] = read(
        TABLE + "INSERT INTO `jobs` VALUES (1,'it''s',-1.50),\n(2,_binary 'x\\'y',NULL);"
    )

    assert first == RowInserted("jobs", {"id": "1", "name": "it's", "we`ird": "-1.50"})
    assert second == RowInserted("jobs", {"id": "2", "name": "x'y", "we`ird": None})


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        (r"'a\nb\tc\0d\Ze\\f\%'", "a\nb\tc\0d\x1ae\\f\\%"),
        ("'a''b'", "a'b"),
        ('"a""b\\"c"', 'a"b"c'),
        ("0xE4BDA0", "你"),
        ("X'4142'", "AB"),
        ("_utf8mb4'x'", "x"),
        (
            "'); INSERT INTO `jobs` VALUES (9,9,9); -- '",
            "); INSERT INTO `jobs` VALUES (9,9,9); -- ",
        ),
        ("''", ""),
        ("1e-05", "1e-05"),
    ],
)
def test_values_are_read_as_a_server_reads_them(written: str, read_as: str) -> None:
    assert rows(f"{TABLE}INSERT INTO jobs VALUES (1,{written},0);") == [("1", read_as, "0")]


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_any_text_survives(texts: list[str]) -> None:
    kept = [text.encode(errors="replace").decode() for text in texts]
    written = ",".join(f"({number},{quoted(text)},0)" for number, text in enumerate(kept))

    found = rows(f"{TABLE}INSERT INTO `jobs` VALUES {written};\n-- it's over\n")

    assert [row[1] for row in found] == kept


def test_columns_that_an_insert_names_win() -> None:
    text = f"{TABLE}REPLACE INTO `xxl`.`jobs` (`name`, `id`) VALUES ('a', 1);"

    assert read(text)[1:] == [RowInserted("jobs", {"name": "a", "id": "1"})]


def test_other_tables_and_statements_are_passed_over() -> None:
    text = (
        "/*M!999999\\- enable the sandbox mode */ \n-- it's a dump\n# a comment; it's one\n"
        "LOCK TABLES `others` WRITE;\nINSERT INTO `others` VALUES (1,'a;b\\';'),(2,'\"');\n"
        "CREATE PROCEDURE p() SELECT 1 -- it's; \n, 2 /* it's */;;\n"
        f"/*!50001 CREATE VIEW `v` AS SELECT 1 AS `a;` */;{TABLE}/* it's; */ SET a='b;c';\n"
        "INSERT INTO jobs VALUES (1,'x',2)"
    )

    assert rows(text + ";") == [("1", "x", "2")]
    assert read("-- nothing\n") == []


def test_cut_anywhere_inside_a_statement_is_named() -> None:
    ends = {position + 1 for position, sign in enumerate(WHOLE) if sign == ";"}
    inside = set(range(WHOLE.index("CREATE TABLE") + 1, len(WHOLE))) - ends
    between = {position for end in ends for position in (end, end + 1)}

    for end in sorted(inside - between):
        with pytest.raises(CommandError, match=r"dump.sql, line \d+: "):
            read(WHOLE[:end])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("INSERT INTO jobs VALUES (1);", "line 1: rows of jobs without its columns"),
        (f"{TABLE}INSERT INTO jobs VALUES (1,'a');", "jobs has 3 columns, a row has 2 values"),
        (f"{TABLE}INSERT INTO jobs SELECT 1;", "expected VALUES, got: SELECT"),
        ("SET NAMES latin1;", "expected a dump in UTF-8, got: latin1"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, words: str) -> None:
    with pytest.raises(CommandError) as raised:
        read(text)

    assert words in str(raised.value)


@pytest.mark.parametrize("now", ["now()", "NOW(6)", "CURRENT_TIMESTAMP", "current_timestamp()"])
def test_a_time_that_the_server_would_choose_is_none(now: str) -> None:
    assert rows(f"{TABLE}INSERT INTO jobs VALUES (1,{now},0),(2,'now()',0);") == [
        ("1", None, "0"),
        ("2", "now()", "0"),
    ]


@pytest.mark.parametrize(("charset", "is_narrow"), [("utf8mb4", False), ("utf8mb3", True)])
def test_a_dump_in_which_characters_may_be_lost_tells_it(
    tmp_path: Path, charset: str, is_narrow: bool
) -> None:
    path = tmp_path / "dump.sql"
    path.write_text(f"/*!40101 SET NAMES {charset} */;\n{WHOLE}")

    assert DumpSource(path).is_narrow is is_narrow
