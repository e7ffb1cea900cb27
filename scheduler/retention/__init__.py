"""What is counted and what is cleared: the day report, and expired runs."""
