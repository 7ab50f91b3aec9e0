"""Stimuli as units with boxes: words of a text, tokens of source code, objects of a picture."""
