"""`make bench-business-day`: calendars, backfills, flows and limits, in figures."""
