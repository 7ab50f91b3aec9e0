"""Where a group of people looks together."""
