"""What is expected of a job: when it starts, ends and succeeds, as users write it. Pure."""
