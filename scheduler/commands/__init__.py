"""Commands on jobs, runs, apps, executors, users and tokens; each writes to the audit log."""
