"""When a job is due: kinds of schedules, handling of late ticks, next ticks for display.

A new kind is a class here, listed in `registry`, and the translations of its words.
"""
