"""The fork server and the code of job processes: one thread, no connections, few imports."""
