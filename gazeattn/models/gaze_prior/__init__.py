"""Gaze inside language models: layers, biases and losses that know where programmers look."""
