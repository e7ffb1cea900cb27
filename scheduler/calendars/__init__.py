"""Where calendars of working days come from: PyPI's `holidays`, iCalendar files, job files."""
