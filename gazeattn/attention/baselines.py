"""Baselines: profiles that need neither eyes nor attention maps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gazeattn.errors import CapabilityError, DataError
from gazeattn.profiles import AttentionProfile, Units
from gazeattn.reading.words import letter_count, rarity
from gazeattn.registry import baselines, register_baseline


def content_seed(*parts: object) -> int:
    """Return a 64-bit seed that depends on the parts alone, not on the order of calls."""
    text = "\x1f".join(str(p) for p in parts)
    return int.from_bytes(
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little"
    )


def _profile(
    units: Units, weights: np.ndarray, name: str, convention: str, **lost: Any
) -> AttentionProfile:
    return AttentionProfile(units, weights, "baseline", name, {"convention": convention}, lost)


@register_baseline(
    "uniform",
    description="the same weight on every word; correlations with a constant are undefined",
)
def uniform(units: Units, **_: Any) -> AttentionProfile:
    """Return equal weights."""
    n = len(units)
    return _profile(units, np.full(n, 1.0 / n if n else np.nan), "uniform", "1 / number of words")


@register_baseline("random", description="independent uniform numbers, one draw per text")
def random(units: Units, *, seed: int = 0, **_: Any) -> AttentionProfile:
    """Return one draw of uniform numbers, seeded by `seed` and the text itself."""
    generator = np.random.default_rng(content_seed("random", seed, units.key))
    convention = f"uniform on [0, 1), seed {seed} and the text's content hash"
    return _profile(units, generator.random(len(units)), "random", convention)


@register_baseline("length", description="letters and digits of the word, without punctuation")
def length(units: Units, **_: Any) -> AttentionProfile:
    """Return the number of letters and digits of each word."""
    weights = np.array([letter_count(t) for t in units.texts], dtype=np.float64)
    convention = "letters and digits of the word; punctuation and symbols do not count"
    return _profile(units, weights, "length", convention)


@register_baseline(
    "frequency", description="rarity: minus log10 of the word's frequency (wordfreq)"
)
def frequency(units: Units, *, language: str = "en", **_: Any) -> AttentionProfile:
    """Return minus log10 of each word's relative frequency: rarer words weigh more.

    Frequencies come from the wordfreq lists (Speer 2022, doi:10.5281/zenodo.7199437), which fold
    case and combine the parts of hyphenated words. A word that the list does not know counts as
    one in a billion (weight 9). A word without letters or digits has no frequency: missing.
    A language without a list leaves every word missing, with the reason in ``lost``.
    """
    convention = (
        f"-log10 of the wordfreq frequency ({language}): rarer words weigh more; unknown words "
        "count as 1e-9, words without letters or digits are missing"
    )
    try:
        weights, unknown = rarity(units.texts, language)
    except (LookupError, ImportError) as error:
        reason = f"no word frequencies for language {language!r}: {error}"
        return _profile(units, np.full(len(units), np.nan), "frequency", convention, reason=reason)
    missing = int(np.isnan(weights).sum())
    lost = {"unknown_words": len(unknown), "examples": unknown[:3], "words_without_value": missing}
    return _profile(units, weights, "frequency", convention, **lost)


@register_baseline("position", description="place in the text: later words weigh more")
def position(units: Units, **_: Any) -> AttentionProfile:
    """Return the place of each word in reading order, from 1."""
    convention = "place in reading order from 1: later words weigh more"
    return _profile(units, np.arange(1, len(units) + 1, dtype=np.float64), "position", convention)


@register_baseline(
    "surprisal",
    description="minus log probability of the word under the language model",
    requires=("lm_head", "mlm_head"),
)
def surprisal(
    units: Units,
    *,
    lm: Any = None,
    context: str | None = None,
    lm_options: Mapping[str, Any] | None = None,
    **_: Any,
) -> AttentionProfile:
    """Return the model's surprisal of each word as a baseline.

    Raises
    ------
    CapabilityError
        No model is given, or it has no head that predicts words.
    """
    if lm is None:
        raise CapabilityError("the baseline 'surprisal' needs a language model")
    profile = lm.surprisal(units, context=context, **(lm_options or {}))
    return replace(profile, units=units, kind="baseline", name="surprisal")


def baseline_profile(
    name: str,
    units: Units,
    *,
    language: str = "en",
    seed: int = 0,
    lm: Any = None,
    context: str | None = None,
    lm_options: Mapping[str, Any] | None = None,
) -> AttentionProfile:
    """Return a registered baseline over the units.

    Parameters
    ----------
    name
        ``uniform``, ``random``, ``length``, ``frequency``, ``position``, ``surprisal`` or one
        that was added with ``register_baseline``: a function of the units and of the keywords
        language, seed, lm, context and lm_options that returns a profile.
    language
        ISO 639-1 code for word frequencies.
    seed
        For the random baseline.
    lm, context, lm_options
        Model, preceding text and options of `LanguageModel.surprisal`.

    Raises
    ------
    UnknownNameError
        No such baseline.
    CapabilityError
        The baseline needs what the model does not have.
    DataError
        The baseline's profile is over other units.
    """
    profile = baselines.get(name).obj(
        units, language=language, seed=seed, lm=lm, context=context, lm_options=lm_options
    )
    if profile.units.texts != units.texts:
        raise DataError(f"baseline {name!r} returned a profile over other units")
    return profile
