"""The job file: read with its lines, checked, applied, and written."""
