"""Mixed-effects check: does a predictor explain a measure beyond readers, items and controls?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm

from gazeattn.errors import CapabilityError, DataError
from gazeattn.metrics._arrays import Floats, is_constant
from gazeattn.metrics._options import flag, items, share, wrong

__all__ = ["MixedResult", "mixed_effects"]

# One optimiser alone, L-BFGS above all, now and then stops far from the maximum and reports
# convergence. They run in turn until two of them agree on the log-likelihood.
_METHODS = ("powell", "bfgs", "nm", "cg")
_AGREE = 1e-3


@dataclass(frozen=True)
class MixedResult:
    """A fixed effect of a linear mixed model, and the test of leaving it out.

    Attributes
    ----------
    effect : str
    estimate, standard_error, low, high : float
        Slope of the effect (per standard deviation of the predictor where standardised), with
        the Wald interval.
    p : float
        Of the likelihood-ratio test against the model without the effect.
    chi2 : float
        Twice the gain in log-likelihood, one degree of freedom.
    coefficients : dict of str to float
        All fixed effects, with the intercept.
    variances : dict of str to float
        Of participants, items, slopes and the residual.
    n, n_missing : int
        Rows that count, and rows left out for a missing value.
    n_participants, n_items : int
        `n_items` is 0 without items.
    converged : bool
        Of both fits. An estimate without convergence is not to be trusted.
    reason : str
        Why it is undefined, or what the fit complained about; empty where neither holds.
    convention : str
    """

    effect: str
    estimate: float
    standard_error: float
    low: float
    high: float
    p: float
    chi2: float
    coefficients: dict[str, float]
    variances: dict[str, float]
    n: int
    n_missing: int
    n_participants: int
    n_items: int
    converged: bool
    reason: str
    convention: str


def mixed_effects(
    table: pd.DataFrame,
    outcome: str,
    effect: str,
    *,
    controls: Sequence[str] = (),
    participant: str = "participant",
    item: str | None = None,
    slope: bool = False,
    standardise: bool = True,
    confidence: float = 0.95,
) -> MixedResult:
    """Fit a linear mixed model with statsmodels and test one fixed effect.

    ``outcome ~ 1 + effect + controls + (1 | participant)``, with ``(1 | item)`` and
    ``(0 + effect | participant)`` where asked for, by maximum likelihood, so that the models with
    and without the effect can be compared. Random slopes are independent of the intercepts.

    Parameters
    ----------
    table : DataFrame
        One row per observation, e.g. reader and word. Rows with a missing value are left out and
        counted.
    outcome, effect : str
        Columns of numbers, e.g. the logarithm of a reading time and the attention to the word.
    controls : sequence of str
        Further fixed effects, e.g. word length, frequency, surprisal.
    participant, item : str
        Columns of ids. Items are crossed with participants; the cost grows with the number of
        rows times the square of the number of ids.
    slope : bool
        Let the effect differ between participants.
    standardise : bool
        Bring effect and controls to mean 0 and standard deviation 1.
    confidence : float
        Of the interval.

    Returns
    -------
    MixedResult

    Raises
    ------
    CapabilityError
        statsmodels is not installed.
    DataError
        A column is absent or holds no numbers, a name is used twice, or `confidence` is not
        between 0 and 1.

    References
    ----------
    Baayen, Davidson and Bates (2008), Journal of Memory and Language 59, 390-412.
    """
    model = _statsmodels()
    confidence = share("confidence", confidence)
    slope, standardise = flag("slope", slope), flag("standardise", standardise)
    if not isinstance(table, pd.DataFrame):
        raise wrong("table", "a DataFrame", table)
    for name, column in (
        ("outcome", outcome),
        ("effect", effect),
        ("participant", participant),
        ("item", "" if item is None else item),
    ):
        if not isinstance(column, str):
            raise wrong(name, "the name of a column", column)
    controls = items("controls", controls, "a list of names of columns")
    if not all(isinstance(column, str) for column in controls):
        raise wrong("controls", "a list of names of columns", controls)
    frame, n_missing = _complete(table, outcome, [effect, *controls], participant, item)
    people = int(frame["participant"].nunique())
    n_items = int(frame["item"].nunique()) if item is not None else 0
    names = [effect, *controls]
    facts: dict[str, Any] = {
        "effect": effect,
        "n": len(frame),
        "n_missing": n_missing,
        "n_participants": people,
        "n_items": n_items,
        "convention": _convention(controls, item, slope, standardise),
    }
    x = frame[[f"x{k}" for k in range(len(names))]].to_numpy(np.float64)
    reason = _undefined(frame["y"].to_numpy(np.float64), x, names, people, n_items, item)
    if reason:
        return _without_value(reason, facts)
    fixed = [f"x{k}" for k in range(len(names))]
    if standardise:
        frame[fixed] = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    full, notes = _fit(model, frame, fixed, item is not None, slope)
    reduced, more = _fit(model, frame, fixed[1:], item is not None, slope)
    reason = "; ".join(dict.fromkeys(notes + more))
    if full is None or reduced is None:
        return _without_value(reason, facts)
    gain = max(0.0, 2 * float(full.llf - reduced.llf))
    estimate, error = float(full.fe_params["x0"]), float(full.bse_fe["x0"])
    reach = float(norm.ppf((1 + confidence) / 2)) * error
    shown = {"Intercept": "intercept", **dict(zip(fixed, names, strict=True))}
    return MixedResult(
        estimate=estimate,
        standard_error=error,
        low=estimate - reach,
        high=estimate + reach,
        p=float(chi2.sf(gain, 1)),
        chi2=gain,
        coefficients={shown[k]: float(v) for k, v in full.fe_params.items()},
        variances=_variances(full),
        converged=bool(full.converged and reduced.converged),
        reason=reason,
        **facts,
    )


def _without_value(reason: str, facts: dict[str, Any]) -> MixedResult:
    numbers = dict.fromkeys(("estimate", "standard_error", "low", "high", "p", "chi2"), np.nan)
    facts = {**numbers, **facts}
    return MixedResult(coefficients={}, variances={}, converged=False, reason=reason, **facts)


def _statsmodels() -> Any:
    try:
        from statsmodels.regression.mixed_linear_model import MixedLM
    except ImportError as error:
        raise CapabilityError(
            "the mixed-effects check needs the package statsmodels: pip install statsmodels"
        ) from error
    return MixedLM


def _complete(
    table: pd.DataFrame, outcome: str, predictors: list[str], participant: str, item: str | None
) -> tuple[pd.DataFrame, int]:
    """Return the rows without missing values under neutral names, and how many had some."""
    ids = [participant] + ([item] if item is not None else [])
    used = [outcome, *predictors, *ids]
    if len(set(used)) < len(used):
        raise DataError("a column is used twice", found=", ".join(used))
    absent = [name for name in used if name not in table.columns]
    if absent:
        raise DataError(
            "the table lacks columns", expected=", ".join(absent), found=", ".join(table.columns)
        )
    frame = pd.DataFrame(index=range(len(table)))
    for new, name in zip(["y", *(f"x{k}" for k in range(len(predictors)))], used, strict=False):
        try:
            values = table[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise DataError(f"column {name!r} must hold numbers", found=str(error)) from None
        frame[new] = np.where(np.isfinite(values), values, np.nan)
    for new, name in zip(("participant", "item"), ids, strict=False):
        frame[new] = pd.factorize(table[name])[0]
        frame[new] = frame[new].where(frame[new] >= 0)
    complete = frame.dropna().reset_index(drop=True)
    return complete, len(frame) - len(complete)


def _undefined(
    y: Floats, x: Floats, names: list[str], people: int, items: int, item: str | None
) -> str:
    if people < 2:
        return f"{people} participant{'' if people == 1 else 's'}, 2 needed"
    if item is not None and items < 2:
        return f"{items} item{'' if items == 1 else 's'}, 2 needed"
    if is_constant(y[None])[0]:
        return "the outcome is constant"
    flat = [name for name, values in zip(names, x.T, strict=True) if is_constant(values[None])[0]]
    if flat:
        return f"constant: {', '.join(flat)}"
    centred = (x - x.mean(axis=0)) / x.std(axis=0)
    if np.linalg.matrix_rank(centred) < len(names):
        return "the effect and the controls are collinear"
    if len(y) < len(names) + 3:
        return f"{len(y)} rows for {len(names)} predictors"
    return ""


def _fit(
    model: Any, frame: pd.DataFrame, fixed: list[str], items: bool, slope: bool
) -> tuple[Any, list[str]]:
    """Return the fit of the highest likelihood (None without one) and what it complained about."""
    formula = "y ~ 1" + "".join(f" + {name}" for name in fixed)
    if items:  # crossed: one group of everything, with a variance component for each
        groups = np.zeros(len(frame))
        parts = {"participant": "0 + C(participant)", "item": "0 + C(item)"}
        if slope:
            parts["slope"] = "0 + C(participant):x0"
    else:
        groups = frame["participant"].to_numpy()
        parts = {"participant": "1", **({"slope": "0 + x0"} if slope else {})}
    # variance components alone: the fit with a covariance of random effects gets stuck more often
    options: dict[str, Any] = {"groups": groups, "re_formula": "0", "vc_formula": parts}
    best, notes = None, []
    for method in _METHODS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with np.errstate(all="ignore"):
                fit = model.from_formula(formula, frame, **options).fit(reml=False, method=[method])
                usable = np.isfinite(fit.llf) and np.isfinite(fit.bse_fe).all()
        if not usable:
            continue
        gain = np.inf if best is None else fit.llf - best.llf
        if gain > 0:
            best = fit
            notes = [str(w.message).split("\n")[0].strip() for w in caught]
        if abs(gain) < _AGREE:
            break
    if best is None:
        return None, ["no optimiser of statsmodels found the maximum of the likelihood"]
    return best, [] if best.converged else notes or ["no convergence"]


def _variances(fit: Any) -> dict[str, float]:
    named = zip(fit.model.exog_vc.names, fit.vcomp, strict=True)
    return {**{str(k): float(v) for k, v in named}, "residual": float(fit.scale)}


def _convention(controls: Sequence[str], item: str | None, slope: bool, standardise: bool) -> str:
    random = "random intercepts of participants" + (" and items" if item is not None else "")
    return (
        f"linear mixed model, maximum likelihood, {random}"
        + (", random slopes of participants" if slope else "")
        + f", given {', '.join(controls) or 'no control'}"
        + (", predictors standardised" if standardise else "")
        + ", likelihood-ratio test"
    )
