"""What a job is: its fields, rules, children and script. Nothing here changes a job."""
