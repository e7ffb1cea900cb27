"""The limits of job files, for those who only send them too."""

#: Bytes of job files that are applied together, at most: some 70,000 jobs.
JOB_FILE_BYTES = 5_000_000
