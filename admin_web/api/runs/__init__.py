"""What programs get to know of runs: their answers, their logs, and requests that wait for them."""
