"""Fixations and words: which word was fixated, word measures, reading order."""
