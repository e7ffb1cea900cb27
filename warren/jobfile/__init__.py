"""The job file: reading it with line numbers, checking, applying and writing it."""
