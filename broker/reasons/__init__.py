"""Why something is as it is: codes, each with its English sentence, and the facts of one case."""
