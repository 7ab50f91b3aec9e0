"""Everything that is compared with people: the model's profiles and the baselines of each text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gazeattn.attention.align import Text
from gazeattn.attention.baselines import baseline_profile
from gazeattn.attention.collect import text_column
from gazeattn.errors import CapabilityError, DataError
from gazeattn.profiles import AttentionProfile
from gazeattn.tables import LossLog

SURPRISAL_OPTIONS = ("add_start", "separator", "long_text", "overlap", "max_tokens")


@dataclass(frozen=True)
class Seen:
    """What is known about one text beside its readers.

    Attributes
    ----------
    methods, baselines : list of AttentionProfile
    covariates : dict of name to ndarray, shape (n_words,)
    """

    methods: list[AttentionProfile]
    baselines: list[AttentionProfile]
    covariates: dict[str, np.ndarray]


@dataclass
class Sources:
    """Asks the model and the baselines, and keeps account of what they left out.

    Attributes
    ----------
    lm : LanguageModel
    settings : dict
        Arguments of the comparison.
    language : str
        For word frequencies.
    lost : LossLog
    masses : dict of method to dict of fact to list of float
        Numbers in the profiles' ``lost``, one per text.
    hows : dict of name to dict
        Conventions of each method and baseline.
    """

    lm: Any
    settings: Mapping[str, Any]
    language: str
    lost: LossLog
    masses: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    hows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def attend(self, text: Text) -> list[AttentionProfile]:
        """Return the model's profiles of one text."""
        methods = self.settings["methods"]
        if not methods:
            return []
        found = self.lm.attend(
            [text.units],
            methods,
            contexts=[text.question],
            **self.settings["attention_options"],
        )[0]
        profiles = [found[m] for m in methods]
        for p in profiles:
            if p.units.texts != text.units.texts:
                raise DataError(
                    f"the model's profile {p.name!r} is over other words",
                    source=text.stimulus,
                    expected=f"{len(text.units)} words",
                    found=f"{len(p.units)} words",
                )
            self._note_model(p)
        return profiles

    def known(self, text: Text, methods: list[AttentionProfile]) -> Seen:
        """Add the baselines and covariates of one text to the model's profiles."""
        s = self.settings
        made = {
            name: self._baseline(name, text)
            for name in dict.fromkeys([*s["baselines"], *s["controls"]])
        }
        return Seen(
            methods,
            [p for b in s["baselines"] if (p := made[b]) is not None],
            {c: p.weights for c in s["controls"] if (p := made[c]) is not None},
        )

    def _baseline(self, name: str, text: Text) -> AttentionProfile | None:
        options = self.settings["attention_options"]
        try:
            profile = baseline_profile(
                name,
                text.units,
                language=self.language,
                seed=self.settings["seed"],
                lm=self.lm,
                context=text.question,
                lm_options={k: v for k, v in options.items() if k in SURPRISAL_OPTIONS},
            )
        except CapabilityError as error:
            if name in self.settings["controls"]:
                raise
            self.lost.add("baselines", "undefined", f"{name}: {error}", 1, "texts")
            return None
        self.hows.setdefault(name, dict(profile.how))
        lost, add = profile.lost, self.lost.add
        if "reason" in lost:
            add("baselines", "undefined", f"{name}: {lost['reason']}", 1, "texts")
            return profile
        missing = [text.units.texts[i] for i in np.flatnonzero(np.isnan(profile.weights))]
        reason = f"{name}: words without a value"
        add("baselines", "undefined", reason, len(missing), "words", missing)
        unknown = int(lost.get("unknown_words", 0))
        reason = f"{name}: words that the list does not know, taken as one in a billion"
        add("baselines", "note", reason, unknown, "words", lost.get("examples", ()))
        return profile

    def _note_model(self, p: AttentionProfile) -> None:
        self.hows.setdefault(p.name, dict(p.how))
        missing = [p.units.texts[i] for i in np.flatnonzero(np.isnan(p.weights))]
        reason = f"{p.name}: words without a score"
        self.lost.add("model attention", "undefined", reason, len(missing), "words", missing)
        facts = self.masses.setdefault(p.name, {})
        for key, value in p.lost.items():
            if isinstance(value, int | float | np.number) and not isinstance(value, bool):
                facts.setdefault(key, []).append(float(value))

    def mean_masses(self) -> dict[str, dict[str, float]]:
        """Return the mean over texts of every number that the profiles report as left out."""
        return {
            m: {k: float(np.nanmean(v)) for k, v in of.items() if not np.isnan(v).all()}
            for m, of in self.masses.items()
        }


def profile_table(
    name: str, texts: Sequence[Text], seen: Mapping[tuple[str, str], Seen]
) -> pd.DataFrame:
    """Return all word profiles as a long table (see `Comparison.profiles`)."""
    blocks: list[tuple[str, str, str | None, AttentionProfile]] = []
    for text in texts:
        for side in text.human.values():
            blocks.append((text.stimulus, text.trial, None, side.profiles[-1]))
            own = zip(text.trials, text.participants, side.profiles[:-1], strict=True)
            blocks += [(text.stimulus, trial, reader, p) for trial, reader, p in own]
        here = seen[text.content]
        blocks += [(text.stimulus, text.trial, None, p) for p in (*here.methods, *here.baselines)]
    n = np.array([len(b[3].units) for b in blocks], dtype=np.int64)
    return pd.DataFrame(
        {
            "dataset": text_column([name] * len(blocks), n),
            "stimulus": text_column([b[0] for b in blocks], n),
            "trial": text_column([b[1] for b in blocks], n),
            "participant": text_column([b[2] for b in blocks], n),
            "kind": text_column([b[3].kind for b in blocks], n),
            "name": text_column([b[3].name for b in blocks], n),
            "index": np.concatenate([np.arange(i) for i in n]),
            "unit": text_column([u for b in blocks for u in b[3].units.ids]),
            "text": text_column([u for b in blocks for u in b[3].units.texts]),
            "weight": np.concatenate([b[3].weights for b in blocks]),
        }
    )
