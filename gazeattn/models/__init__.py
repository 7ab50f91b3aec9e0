"""Models that are trained on gaze, or compared with it."""
