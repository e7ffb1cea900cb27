"""What a job is: its fields, rules, children, script and time zone. Users change it elsewhere."""
