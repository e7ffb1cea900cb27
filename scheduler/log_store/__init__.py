"""The log store: where finished logs go, in a folder or in S3, and how they are read there."""
