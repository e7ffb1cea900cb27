"""XXL-JOB's tables: where they are read from, and what each column becomes here."""
