"""XXL-JOB's tables: how they are read, and what each column becomes here."""
