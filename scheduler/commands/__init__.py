"""The changes that users make, to jobs, runs and everything else; each writes to the audit log."""
