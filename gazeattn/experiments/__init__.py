"""Experiments: thin functions, each one a Hydra application."""
