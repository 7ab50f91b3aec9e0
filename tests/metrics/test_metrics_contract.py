"""Whatever stands in the place of an option: only errors of this package come out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gazeattn.errors import DataError, GazeattnError
from gazeattn.metrics import agreement, coverage, matrices, scanpath, statistics
from gazeattn.metrics.mixed import mixed_effects
from gazeattn.registry import metrics

WRONG: tuple[Any, ...] = (
    "nonsense", "", "2", "yes", -1, 0, 2.5, float("nan"), float("inf"), -float("inf"), True,
    None, (), (4, 4), (0, 0), (1, 2, 3), [1.0, float("nan")], {}, {"a": 1}, object(),
    np.zeros((2, 2)),
    [[1, 2], [3]], 10**400, b"x", 1j,
)  # fmt: skip
A = np.array([0.1, 0.5, 0.2, 0.9, 0.3, 0.7])
B = np.array([0.2, 0.4, 0.1, 0.8, 0.6, 0.5])
ROWS = np.stack([A, B, A[::-1]])
PATH = np.array([[10.0, 20, 200], [60, 30, 150], [80, 70, 300], [15, 75, 120]])
OTHER = np.array([[12.0, 22, 180], [50, 35, 250], [85, 60, 100]])
SIZE = (100.0, 80.0)
GRID = np.arange(48.0).reshape(6, 8) + 1
STEPS = np.array([[0, 1.0, 0], [0, 0, 1], [1, 0, 0]])
BOXES = [[50.0, 20, 30, 30], [40, 30, 20, 20]]
CLUSTERS = scanpath.Clusters(np.array([[10.0, 20], [70, 60]]), SIZE)
SEEN = scanpath.search_behaviour([["a", "b", "a"], ["b", "c"]], ["a", "c"])
CURVE = np.array([0.1, 0.5, 0.9])
DRAWN = statistics.permutation_pvalues(ROWS, B, n_permutations=20, rng=0)
TABLE = pd.DataFrame(
    {
        "participant": list("aabbccdd"),
        "item": list("xyxyxyxy"),
        "y": [1.0, 2.2, 1.4, 2.9, 0.8, 2.1, 1.9, 3.3],
        "x": [0.0, 1, 0, 1, 0, 1, 0, 1.5],
    }
)


@dataclass(frozen=True)
class Case:
    """A function with arguments that it takes."""

    call: Callable[..., Any]
    good: dict[str, Any] = field(default_factory=dict)


def case(call: Callable[..., Any], *arguments: Any, **options: Any) -> Case:
    return Case(call, dict(inspect.signature(call).bind(*arguments, **options).arguments))


def registered() -> dict[str, Case]:
    """Return a case for every registered metric; a new one has to fit a rule here."""
    points = np.array([[1.0, 2.0], [5.0, 3.0]])
    density = GRID / GRID.sum()
    special: dict[str, tuple[Any, ...]] = {
        "target_fixation_auc": (CURVE,),
        "probability_mismatch": (CURVE, CURVE / 2),
        "scanpath_ratio": ([PATH, OTHER], BOXES),
        "behaviour_difference": (SEEN, SEEN),
        "score_distribution_kl": (A, B),
        "shuffled_auc": (GRID, points, points + 1),
    }
    needed: dict[str, Any] = {
        "size": SIZE, "radius": 30.0, "clusters": CLUSTERS, "distance": 500.0, "unit_size": 0.05,
        "labels": np.tile([[1, 2], [3, 4]], (40, 50)),
    }  # fmt: skip
    pairs = {
        "agreement": (A, B), "matrix": (STEPS, STEPS.T + STEPS), "scanpath": (PATH, OTHER),
        "scanpath_groups": ([PATH, OTHER], [OTHER, PATH]),
    }  # fmt: skip
    out = {}
    for entry in metrics:
        parameters = inspect.signature(entry.obj).parameters.values()
        names = [p.name for p in parameters]
        given = special.get(entry.name) or pairs.get(entry.info["task"])
        if given is None:  # saliency
            first: Any = np.stack([density, density]) if names[0] == "maps" else density
            second = points if names[1] == "fixations" else density.T.reshape(6, 8)
            given = (first, second)
        options = {
            p.name: needed[p.name]
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty
        }
        out[entry.name] = case(entry.obj, *given, **options)
    return out


METRICS = registered()
OTHERS = {
    "batched": case(agreement.batched, "spearman", ROWS, B),
    "chance": case(agreement.chance, "topk_overlap", 5),
    "n_paired": case(agreement.n_paired, ROWS, B),
    "paired": case(agreement.paired, A, B),
    "partial": case(agreement.partial, A, B, [A[::-1]]),
    "partial_batched": case(agreement.partial_batched, ROWS, B, [A[::-1]]),
    "partial_convention": case(agreement.partial_convention),
    "topk_chance": case(agreement.topk_chance, 5, 2),
    "topk_indices": case(agreement.topk_indices, A, 2),
    "undefined_reason": case(agreement.undefined_reason, "spearman", A, B),
    "coverage_chance": case(coverage.coverage_chance, B),
    "matrix_agreement": case(matrices.matrix_agreement, [STEPS, STEPS], [STEPS.T, STEPS]),
    "trivial_reliance": case(matrices.trivial_reliance, STEPS),
    "trivial_pattern": case(matrices.trivial_pattern, "self", 3),
    "transition_matrix": case(matrices.transition_matrix, [0, 1, 2], 3),
    "adjust": case(statistics.adjust, A),
    "benjamini_hochberg": case(statistics.benjamini_hochberg, A),
    "clustered_bootstrap": case(
        statistics.clustered_bootstrap, A, {"reader": list("aabbcc")}, n=20
    ),
    "cohen_kappa": case(statistics.cohen_kappa, [1, 2, 1], [1, 1, 2]),
    "cohens_d_paired": case(statistics.cohens_d_paired, A, B),
    "correlation_test": case(statistics.correlation_test, A, B),
    "fisher_mean": case(statistics.fisher_mean, A),
    "fleiss_kappa": case(statistics.fleiss_kappa, [[1, 2, 1], [1, 1, 2]]),
    "hedges_g": case(statistics.hedges_g, A, B),
    "icc": case(statistics.icc, ROWS),
    "max_t": case(statistics.max_t, DRAWN.observed, DRAWN.null),
    "mean_null": case(statistics.mean_null, [DRAWN, DRAWN]),
    "mean_of_others": case(statistics.mean_of_others, ROWS),
    "mean_pairwise": case(statistics.mean_pairwise, ROWS),
    "noise_ceiling": case(statistics.noise_ceiling, ROWS),
    "pearson_ci": case(statistics.pearson_ci, A, B),
    "permutation_pvalues": case(statistics.permutation_pvalues, ROWS, B, n_permutations=20),
    "relative": case(statistics.relative, 0.4, 0.6),
    "sign_flip_test": case(statistics.sign_flip_test, A - B, n_permutations=20),
    "spearman_brown": case(statistics.spearman_brown, 0.5),
    "split_half": case(statistics.split_half, ROWS, halves="random", n_splits=3),
    "summarise": case(statistics.summarise, A),
    "tail_probability": case(
        statistics.tail_probability, DRAWN.observed, DRAWN.null, alternative="greater"
    ),
    "two_sample_test": case(statistics.two_sample_test, A, B, n_permutations=20),
    "mixed_effects": case(mixed_effects, TABLE, "y", "x"),
    "fit_clusters": case(scanpath.fit_clusters, [PATH, OTHER], size=SIZE, bandwidth=20.0),
    "sequence_score_many": case(
        scanpath.sequence_score_many, PATH, [OTHER], clusters=CLUSTERS, size=SIZE
    ),
    "fixation_edit_distance_many": case(
        scanpath.fixation_edit_distance_many, PATH, [OTHER], clusters=CLUSTERS, size=SIZE
    ),
    "semantic_sequence_score_many": case(
        scanpath.semantic_sequence_score_many, PATH, [OTHER], labels=np.ones((80, 100), int),
        size=SIZE,
    ),
    "semantic_fixation_edit_distance_many": case(
        scanpath.semantic_fixation_edit_distance_many, PATH, [OTHER],
        labels=np.ones((80, 100), int), size=SIZE,
    ),
    "search_behaviour": case(scanpath.search_behaviour, [["a", "b"]], ["a"]),
    "saccades": case(scanpath.saccades, [PATH]),
    "amplitude_distribution": case(scanpath.amplitude_distribution, [PATH], edges=[0.0, 50, 100]),
    "direction_distribution": case(scanpath.direction_distribution, [PATH]),
    "steps_to_target": case(scanpath.steps_to_target, [PATH, OTHER], BOXES),
    "target_fixation_probability": case(
        scanpath.target_fixation_probability, [1.0, 3, np.inf], max_step=4
    ),
    "scanpath_ratios": case(scanpath.scanpath_ratios, [PATH, OTHER], BOXES),
    "pair_scores": case(
        scanpath.pair_scores, [PATH], [OTHER, PATH], model_stimulus=["i"],
        human_stimulus=["i", "i"], metric="dtw",
    ),
    "pairwise": case(scanpath.pairwise, [PATH, OTHER], metric="dtw"),
    "pairs_within": case(scanpath.pairs_within, ["i", "i", "j"]),
}  # fmt: skip
CASES = {**METRICS, **OTHERS}
SHORTER = {("shuffled_auc", "other_sizes"): "sizes"}


def options_of(one: Case) -> list[str]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in inspect.signature(one.call).parameters.values() if p.kind not in kinds]


def test_every_public_function_of_statistics_has_a_case() -> None:
    public = {
        name
        for module in (statistics, coverage, matrices)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }
    assert public - set(CASES) <= {"marked_reason"}


@pytest.mark.parametrize("name", CASES)
def test_only_errors_of_this_package_come_out(name: str) -> None:
    one = CASES[name]
    one.call(**one.good)
    told = []
    for option in options_of(one):
        for value in WRONG:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    one.call(**{**one.good, option: value})
                except GazeattnError:
                    pass
                except Exception as error:
                    told.append(f"{option}={value!r:.60}: {type(error).__name__}: {error}")
    assert not told, "\n" + "\n".join(told)


@pytest.mark.parametrize("name", CASES)
def test_an_error_names_the_option_and_text_is_never_taken(name: str) -> None:
    """Options are what has a default or must be named; text that means nothing is refused."""
    one = CASES[name]
    told = []
    for p in inspect.signature(one.call).parameters.values():
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            continue
        if p.kind is not p.KEYWORD_ONLY and p.default is p.empty:
            continue
        if (name, p.name) == ("pairwise", "paths_b"):  # told to be a metric in the wrong place
            continue
        try:
            one.call(**{**one.good, p.name: "nonsense"})
        except GazeattnError as error:
            said = SHORTER.get((name, p.name), p.name)
            if said not in str(error) or "nonsense" not in str(error):
                told.append(f"{p.name}: not named in: {error}")
            if isinstance(error, DataError) and None in (error.expected, error.found):
                told.append(f"{p.name}: not said what is expected: {error}")
        except Exception as error:
            told.append(f"{p.name}: {type(error).__name__}: {error}")
        else:
            told.append(f"{p.name}='nonsense' was taken")
    assert not told, "\n" + "\n".join(told)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("topk_overlap", {"k": 2.5}),
        ("topk_overlap", {"share": True}),
        ("permutation_pvalues", {"n_permutations": 0}),
        ("permutation_pvalues", {"n_permutations": 1.5}),
        ("sign_flip_test", {"n_permutations": -1}),
        ("clustered_bootstrap", {"n": 0}),
        ("clustered_bootstrap", {"clusters": ["a"] * 6}),
        ("split_half", {"n_splits": 0}),
        ("pearson_ci", {"level": 95}),
        ("sequence_score", {"size": (0, 0)}),
        ("sequence_score", {"size": 100}),
        ("sequence_score", {"truncate": -1}),
        ("sequence_score", {"truncate": 1.5}),
        ("semantic_sequence_score", {"bin_ms": 0}),
        ("direction_distribution", {"bins": 0}),
        ("scanpath_ratio", {"boxes": [1, 2, 3]}),
        ("scanpath_ratio", {"boxes": [1, 2, float("nan"), 4]}),
        ("scanpath_ratio", {"boxes": [1, 2, -3, 4]}),
        ("target_fixation_probability", {"max_step": -1}),
        ("target_fixation_probability", {"steps": [0.0]}),
    ],
)
def test_a_wrong_option_is_named_with_what_is_expected(name: str, options: dict[str, Any]) -> None:
    one = CASES[name]
    (option,) = options
    with pytest.raises(DataError, match=option) as caught:
        one.call(**{**one.good, **options})
    assert caught.value.expected is not None and caught.value.found is not None


@pytest.mark.parametrize(
    "metric", ["topk_overlap", "kappa_topk", "topk_jaccard", "ndcg", "coverage"]
)
def test_k_beyond_the_vector_is_undefined_with_a_reason(metric: str) -> None:
    value = agreement.batched(metric, [A], B, k=7)[0]
    assert np.isnan(value)
    assert "7" in agreement.undefined_reason(metric, A, B, k=7)


def test_wrong_options_are_refused_where_nothing_is_computed() -> None:
    with pytest.raises(DataError, match="k is wrong"):
        agreement.topk_overlap([], [], k=-1)
    with pytest.raises(GazeattnError, match="option"):
        agreement.batched("spearman", [A], B, nonsense=1)


def test_a_target_that_is_never_reached_has_no_ratio() -> None:
    far = [[90.0, 5, 5, 5]]
    assert scanpath.steps_to_target([PATH], far).tolist() == [np.inf]
    assert np.isnan(scanpath.scanpath_ratio([PATH], far))
    curve = scanpath.target_fixation_probability([np.inf], max_step=3)
    assert curve.curve.tolist() == [0, 0, 0, 0] and curve.auc == 0


def test_an_empty_path_is_counted_and_not_a_miss() -> None:
    steps = scanpath.steps_to_target([PATH, np.zeros((0, 3))], BOXES)
    assert steps[0] == 2 and np.isnan(steps[1])
    found = scanpath.target_fixation_probability(steps, max_step=2)
    assert (found.trials, found.undefined) == (1, 1)
