"""What a job is: its description, its rules, its children and its script. Nothing here acts."""
