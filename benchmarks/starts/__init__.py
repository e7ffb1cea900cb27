"""What the start of a job process costs."""
