"""Jobs: claimed when due, their history, children, scripts and what routes remember of them."""
