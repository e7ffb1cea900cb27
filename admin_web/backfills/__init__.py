"""The pages of backfills: the list, one with its dates as a grid, and the forms that make them."""
