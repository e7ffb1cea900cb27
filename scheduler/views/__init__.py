"""What console, command line and API show of jobs, runs, processes and alarms.

A view holds facts, never words of a language; a fact is derived here, or is a column of its row.
"""
