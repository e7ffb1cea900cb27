"""The pages of jobs: the list, a job, its form, and what is done with jobs."""
