"""What users order, about jobs, runs and everything else; each command writes to the audit log."""
