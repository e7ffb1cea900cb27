"""The phrases of each language for the parts of a cron expression; `words` puts them together."""

# ruff: noqa: RUF001 - Chinese has commas and parentheses of its own

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The phrases of a language, with placeholders.

    `time_first` = the time of day comes before the day, as in English.
    """

    time_first: bool
    comma: str
    last_and: str
    between: str
    every_second: str
    every_seconds: str
    every_minute: str
    every_minutes: str
    every_hour: str
    every_hours: str
    from_second: str
    from_minute: str
    from_hour: str
    at_second: str
    at_times: str
    at_seconds: str
    at_minutes: str
    at_hours: str
    past_hour: str
    of_every_hour: str
    in_hours: str
    from_to_time: str
    from_to: str
    every_nth: str
    every_day: str
    on: str
    day_numbers: str
    last_day: str
    before_last_day: str
    weekday_nearest: str
    on_weekdays: str
    on_nth_weekday: str
    on_last_weekday: str
    in_months: str
    in_years: str
    number_is: str
    did_you_mean: str
    nth: tuple[str, ...]
    weekdays: tuple[str, ...]
    months: tuple[str, ...]

    def sentence(self, *, time: str, day: str, month: str, year: str) -> str:
        """Join the parts in the language's order, with a capital first letter."""
        parts = (time, day, month, year) if self.time_first else (year, month, day, time)
        text = self.between.join(part for part in parts if part)
        return text[:1].upper() + text[1:]

    def with_hours(self, often: str, hours: str) -> str:
        """Return how often, and in which hours; `hours` is empty for the whole day."""
        if not hours:
            return often
        return self.between.join((often, hours) if self.time_first else (hours, often))

    def on_days(self, days: str) -> str:
        """Return the phrase for these days of the month."""
        return self.on.format(days)


ENGLISH = Language(
    time_first=True,
    comma=", ",
    last_and=" and ",
    between=", ",
    every_second="every second",
    every_seconds="every {} seconds",
    every_minute="every minute",
    every_minutes="every {} minutes",
    every_hour="every hour",
    every_hours="every {} hours",
    from_second=" from second {}",
    from_minute=" from minute {}",
    from_hour=" from hour {}",
    at_second=" at second {}",
    at_times="at {}",
    at_seconds="at second {}",
    at_minutes="at minute {}",
    at_hours="at hour {}",
    past_hour=" at minute {}",
    of_every_hour="of every hour",
    in_hours="in hour {}",
    from_to_time="from {} to {}",
    from_to="{} to {}",
    every_nth="{1} to {2} in steps of {0}",
    every_day="every day",
    on="on {} of the month",
    day_numbers="day {}",
    last_day="the last day",
    before_last_day="day {} before the last day",
    weekday_nearest="the weekday nearest to {}",
    on_weekdays="on {}",
    on_nth_weekday="on the {} {} of the month",
    on_last_weekday="on the last {} of the month",
    in_months="in {}",
    in_years="in {}",
    number_is="{} is {}",
    did_you_mean="; did you mean {}?",
    nth=("first", "second", "third", "fourth", "fifth"),
    weekdays=("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    months=(
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ),
)

CHINESE = Language(
    time_first=False,
    comma="、",
    last_and="和",
    between="，",
    every_second="每秒",
    every_seconds="每 {} 秒",
    every_minute="每分钟",
    every_minutes="每 {} 分钟",
    every_hour="每小时",
    every_hours="每 {} 小时",
    from_second="（从第 {} 秒起）",
    from_minute="（从第 {} 分起）",
    from_hour="（从 {} 点起）",
    at_second="的第 {} 秒",
    at_times="{}",
    at_seconds="第 {} 秒",
    at_minutes="第 {} 分",
    at_hours="{} 点",
    past_hour="的第 {} 分",
    of_every_hour="每小时",
    in_hours="{} 点",
    from_to_time="{} 至 {}",
    from_to="{}至{}",
    every_nth="{1}至{2}（步长 {0}）",
    every_day="每天",
    on="每月{}",
    day_numbers=" {} 日",
    last_day="最后一天",
    before_last_day="最后一天的前 {} 天",
    weekday_nearest="离{}最近的工作日",
    on_weekdays="每{}",
    on_nth_weekday="每月{}{}",
    on_last_weekday="每月最后一个{}",
    in_months="{}",
    in_years="{} 年",
    number_is="{} 是{}",
    did_you_mean="；是否应为 {}？",
    nth=("第一个", "第二个", "第三个", "第四个", "第五个"),
    weekdays=("周日", "周一", "周二", "周三", "周四", "周五", "周六"),
    months=tuple(f"{number}月" for number in range(1, 13)),
)
TRADITIONAL_CHINESE = replace(
    CHINESE,
    every_minute="每分鐘",
    every_minutes="每 {} 分鐘",
    every_hour="每小時",
    every_hours="每 {} 小時",
    from_second="（從第 {} 秒起）",
    from_minute="（從第 {} 分起）",
    from_hour="（從 {} 點起）",
    at_hours="{} 點",
    of_every_hour="每小時",
    in_hours="{} 點",
    every_nth="{1}至{2}（間隔 {0}）",
    last_day="最後一天",
    before_last_day="最後一天的前 {} 天",
    weekday_nearest="離{}最近的工作日",
    on_last_weekday="每月最後一個{}",
    did_you_mean="；是否應為 {}？",
    nth=("第一個", "第二個", "第三個", "第四個", "第五個"),
    weekdays=("週日", "週一", "週二", "週三", "週四", "週五", "週六"),
)
