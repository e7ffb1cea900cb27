"""The parts of a job file that are read by themselves: calendars, limits, flows."""
