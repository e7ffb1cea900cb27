"""What console, command line and API show about jobs, runs, processes, alarms and tokens.

Views hold values, never translated text.
"""
