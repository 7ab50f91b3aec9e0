"""Code and what it does in a sentence: pairs to train and test summarisation on."""
