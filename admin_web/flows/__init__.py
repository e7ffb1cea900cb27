"""The graph of a flow as a drawing, with the states of a run's nodes or while it is typed."""
