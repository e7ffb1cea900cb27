"""What people do with jobs, runs, apps, executors and users, all of it in the audit log."""
