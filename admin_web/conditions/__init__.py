"""What is wrong with the cluster as a whole, told on every page until it is over."""
