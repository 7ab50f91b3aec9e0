"""Parts that several models share: backbones, mixtures, position codes, attention."""
