"""Models that read something off a reader's eyes: goals, comprehension, traits."""
