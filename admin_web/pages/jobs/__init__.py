"""The pages of jobs: the list, a job, its form, and actions."""
