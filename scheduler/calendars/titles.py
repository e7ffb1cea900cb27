"""Titles of events that say that people work on a day off, as feeds of China and Taiwan have them.

A word for it comes first or last, stands in brackets, or beside the name of a holiday; which day of
several it is may follow. Many other words end in the same character: 值班 is duty, 加班 overtime,
航班 a flight.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

#: Traditional characters of the words below, as simplified ones.
_SIMPLIFIED = str.maketrans(
    "補調節國慶開紀農曆勞動兒師憲長連週禮號後間這雙掃無沒",
    "补调节国庆开纪农历劳动儿师宪长连周礼号后间这双扫无没",
)
_BRACKETED = re.compile(r"\(([^()]*)\)")
_BETWEEN = re.compile(r"[\s(),.:;/|·•、。_~+-]+")
#: Which day of several it is: 第1天/共2天, 第 1 天, 1/2.
_COUNTED = re.compile(r"第\s*\d+\s*[天日](\s*/?\s*共\s*\d+\s*[天日])?|(?<!\d)\d+\s*/\s*\d+(?!\d)")
_NAMED = (
    "(元旦|开国纪念日|春节|农历新?年|新年|除夕|小年夜|清明|民族扫墓节|劳动节|端午|中秋|国庆"
    "|和平纪念日|儿童节|教师节|光复节|行宪纪念日|双十)[节日]?((长|连)?假期?)?(前|后|期间)?的?"
)
_HOLIDAY = f"({_NAMED}|五一|十一|二二八|228)"
_WHEN = r"([本这下]?(周|星期|礼拜)[一二三四五六日天]|\d+月\d+[日号]|今[天日])"
_WORK = "((正常|照常|调休|补行?|调整)?上班日?|(调休)?补班日?|调休|调班日?|(调休|补)?工作日)"
#: A word that says it by itself; 班, which does beside the name of a holiday; words that deny it.
_SAYS_WORK = re.compile(f"({_HOLIDAY}|{_WHEN})?{_WORK}|{_WORK}({_HOLIDAY}|{_WHEN})")
_HOLIDAY_AND_MARK = re.compile(f"{_NAMED}班|班{_NAMED}|{_HOLIDAY} 班|班 {_HOLIDAY}")
_DENIES = re.compile("休|休息日?|放假|休假|假[日期]?|[不非免]|[无不]需要?|不[用必]|没有|取消")
_OTHER_SHIFT = re.compile("[值加夜早晚中白轮换交接航停下跟领]班|训班")
_IN_ENGLISH = ("work", "workday", "working day")


def is_working_day(title: str) -> bool:
    """Whether an event with this title is a day off on which people work."""
    plain = unicodedata.normalize("NFKC", title).translate(_SIMPLIFIED).casefold()
    plain = _COUNTED.sub(" ", "".join(map(_round, plain)))
    bracketed = [" ".join(part.split()) for part in _BRACKETED.findall(plain)]
    outside = _words(_BRACKETED.sub(" ", plain))
    inside = [_words(part) for part in bracketed]
    words = [*outside, *(word for part in inside for word in part)]
    if any(_DENIES.fullmatch(word) or _OTHER_SHIFT.search(word) for word in words):
        return False
    if any(part == "班" or part in _IN_ENGLISH for part in bracketed):
        return True
    neighbours = [*words, *map(" ".join, pairwise(words))]
    ends = [word for part in (outside, *inside) for word in (*part[:1], *part[-1:])]
    return any(map(_HOLIDAY_AND_MARK.fullmatch, neighbours)) or any(map(_SAYS_WORK.fullmatch, ends))


def _words(text: str) -> Sequence[str]:
    return [word for word in _BETWEEN.split(text) if word]


def _round(character: str) -> str:
    """Return any kind of bracket as a round one."""
    return {"Ps": "(", "Pe": ")"}.get(unicodedata.category(character), character)
