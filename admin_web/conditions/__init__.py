"""Problems of the cluster as a whole, shown on every page until they are over."""
