"""When a job is due: kinds of schedules, the ticks that are late, the next ones to show to people.

A new kind is a class here, listed in `registry`, and the translations of its words.
"""
