"""Written summaries against true ones: BLEU-4 in two variants, METEOR, and paired draws.

ROUGE-L and BERTScore are those of `gazeattn.metrics.generation`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import CapabilityError, DataError
from gazeattn.metrics.generation import Floats, _pairs, corpus_bleu, rouge_l

__all__ = [
    "CONVENTIONS",
    "bleu4_codexglue",
    "bleu4_sacre",
    "meteor",
    "paired_bootstrap",
    "summary_scores",
]

CONVENTIONS = {
    "bleu4_codexglue": "mean over sentences, small letters, cut at punctuation, 2- to 4-grams + 1",
    "bleu4_sacre": "sacreBLEU of all sentences together: 13a, exponential smoothing, cased",
    "rouge_l": "F1 of the longest common subsequence of words, mean over sentences",
    "meteor": "NLTK with WordNet, alpha 0.9, beta 3, gamma 0.5, mean over sentences",
}
NEEDS_WORDNET = (
    "METEOR needs WordNet, which is not on this machine: python -m nltk.downloader wordnet"
)


def bleu4_codexglue(written: Sequence[str], true: Sequence[str]) -> Floats:
    """Return BLEU-4 of each sentence as CodeXGLUE's tables have it: their mean is the score.

    Sentences are in small letters; every sign that is no letter or digit is a token of its own,
    underscores, hyphens and points in numbers too. Precisions of 2- to 4-grams are smoothed by
    one more match in one more n-gram, and the brevity penalty takes lengths plus one (Lin and Och
    2004, ORANGE; Lu et al. 2021, CodeXGLUE). So an empty sentence scores exp(-n) against one of
    n tokens, not 0.

    Returns
    -------
    ndarray, shape (n,)
        From 0 to 1.
    """
    cut = _TOKEN.findall
    return np.array([_smoothed(cut(a.lower()), cut(b.lower())) for a, b in _pairs(written, true)])


_TOKEN = re.compile(r"[^\W_]+|_|[^\s\w]")


def _smoothed(written: list[str], true: list[str]) -> float:
    logs = 0.0
    for n in range(1, 5):
        mine = Counter(tuple(written[i : i + n]) for i in range(len(written) - n + 1))
        theirs = Counter(tuple(true[i : i + n]) for i in range(len(true) - n + 1))
        hit, total = sum((mine & theirs).values()), sum(mine.values())
        more = 1 if n > 1 else 0
        if total + more == 0:
            continue  # nothing written: the brevity penalty alone decides
        if hit + more == 0:
            return 0.0
        logs += math.log((hit + more) / (total + more))
    penalty = min(0.0, 1 - (len(true) + 1) / (len(written) + 1))
    return math.exp(logs / 4 + penalty)


def bleu4_sacre(written: Sequence[str], true: Sequence[str]) -> float:
    """Return sacreBLEU of all sentences together, from 0 to 1 (Post 2018, WMT)."""
    return corpus_bleu(written, true)


def meteor(written: Sequence[str], true: Sequence[str]) -> Floats:
    """Return METEOR of each sentence (Banerjee and Lavie 2005), with stems and WordNet's synonyms.

    Raises
    ------
    CapabilityError
        NLTK's WordNet is not on this machine; the message says how to get it.
    """
    try:
        from nltk.corpus import wordnet
        from nltk.tokenize import TreebankWordTokenizer
        from nltk.translate.meteor_score import single_meteor_score

        wordnet.ensure_loaded()
    except (ImportError, LookupError):
        raise CapabilityError(NEEDS_WORDNET) from None
    cut = TreebankWordTokenizer().tokenize
    return np.array([float(single_meteor_score(cut(b), cut(a))) for a, b in _pairs(written, true)])


def summary_scores(written: Sequence[str], true: Sequence[str]) -> Mapping[str, Floats]:
    """Return the scores per sentence that need no model and no download."""
    return {"bleu4_codexglue": bleu4_codexglue(written, true), "rouge_l": rouge_l(written, true)}


def paired_bootstrap(
    ours: ArrayLike, theirs: ArrayLike, draws: int = 2000, seed: int = 0, level: float = 0.95
) -> dict[str, float]:
    """Return the mean difference of two scores of the same examples, with its interval.

    Koehn (2004), Statistical Significance Tests for Machine Translation Evaluation, EMNLP.

    Parameters
    ----------
    ours, theirs : array-like, shape (n,) or (n_seeds, n)
        Scores per example; over several seeds the mean of each example counts.
    draws, seed, level

    Returns
    -------
    dict
        ``difference, low, high`` and ``p``: two-sided, that the sign is chance.
    """
    a, b = (np.atleast_2d(np.asarray(x, dtype=np.float64)).mean(0) for x in (ours, theirs))
    if a.shape != b.shape or not len(a):
        raise DataError("scores of the same examples", expected=a.shape, found=b.shape)
    gap = a - b
    made = np.random.default_rng(seed)
    drawn = np.array([gap[made.integers(0, len(gap), len(gap))].mean() for _ in range(draws)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    tail = min((drawn <= 0).mean(), (drawn >= 0).mean())
    return {"difference": float(gap.mean()), "low": float(low), "high": float(high),
            "p": float(min(1.0, 2 * max(tail, 1 / draws)))}  # fmt: skip
