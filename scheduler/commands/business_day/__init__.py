"""Commands about calendars, limits and backfills."""
