"""From a due time to a message in an executor's queue: planner, dispatcher, confirmations."""
