"""Metrics of a saliency map against a reference map: ours first, the human map second.

Both maps have one size. All but `cc` read them as densities: a map with a negative minimum is
shifted to minimum 0, then divided by its sum; a map of zeros becomes uniform (as in pysaliency).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gazeattn.errors import DataError
from gazeattn.metrics._options import one_of, positive, whole
from gazeattn.metrics.saliency import _kernels as kernels
from gazeattn.metrics.saliency._inputs import Array, Floats, as_map, same_shape
from gazeattn.metrics.saliency._passes import (
    constant,
    flat,
    joint_sums,
    mass,
    out_of_range,
    rescaled,
)
from gazeattn.metrics.saliency._register import BYLINSKII, INFINITE, register
from gazeattn.metrics.saliency._transport import (
    block_centres,
    block_side,
    in_blocks,
    transport_cost,
)

KL_CONVENTIONS: dict[str, tuple[float, float]] = {
    "kld_mit": (kernels.EPS, 0.0),
    "kld_1e-20": (0.0, 1e-20),
    "mit": (kernels.MACHINE_EPS, 0.0),
    "hat": (1e-12, 0.0),
}
"""Convention -> (eps inside the logarithm and the quotient, amount added to every pixel)."""

SIM_CONVENTIONS = ("pysaliency", "mit")


def _both(saliency_map: ArrayLike, reference_map: ArrayLike) -> tuple[Array, Array]:
    a, b = as_map(saliency_map), as_map(reference_map, "reference map")
    same_shape(a, b)
    return a, b


def spreads(sums: Floats, n: int) -> tuple[float, float]:
    """Return the sums of squares about the mean of both maps, from `joint_sums`."""
    s_a, s_b, aa, bb, _ = (float(v) for v in sums)
    return aa - s_a * s_a / n, bb - s_b * s_b / n


@register(
    "cc",
    inputs="map",
    bounds=(-1.0, 1.0),
    higher=True,
    symmetric=True,
    description="Pearson correlation of both maps over pixels",
    formula="covariance / (std x std)",
    citation="Jost, Ouerhani, von Wartburg, Mueri, Huegli (2005), CVIU 100(1-2)",
)
def cc(saliency_map: ArrayLike, reference_map: ArrayLike) -> float:
    """Return the Pearson correlation of two maps over pixels.

    Parameters
    ----------
    saliency_map, reference_map : array-like, shape (height, width)

    Returns
    -------
    float
        NaN where either map is constant, in both orders of arguments.

    Raises
    ------
    DataError
        The maps differ in size, or a value is missing or infinite.
    """
    a, b = _both(saliency_map, reference_map)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = joint_sums(a, b)
        if any(out_of_range(v) for v in spreads(sums, a.size)):
            # the correlation does not change with the scale of a map
            a, b = rescaled(a, "saliency map")[0], rescaled(b, "reference map")[0]
            sums = joint_sums(a, b)
    s_a, s_b, *_, ab = sums
    n, (var_a, var_b) = a.size, spreads(sums, a.size)
    for array, spread in ((a, var_a), (b, var_b)):
        x = flat(array)
        if spread <= 0 or constant(x, float(np.sqrt(spread / n)), abs(float(x[0]))):
            return float("nan")
    r = (ab - s_a * s_b / n) / np.sqrt(var_a) / np.sqrt(var_b)
    return float(np.clip(r, -1.0, 1.0))  # rounding may reach beyond by an epsilon


@register(
    "sim",
    inputs="map",
    bounds=(0.0, 1.0),
    higher=True,
    symmetric=True,
    description="Similarity: how much of both densities lies in the same place",
    formula="sum of the smaller of both densities",
    citation="Judd, Durand, Torralba (2012), MIT-CSAIL-TR-2012-001",
)
def sim(
    saliency_map: ArrayLike, reference_map: ArrayLike, *, convention: str = "pysaliency"
) -> float:
    """Return the histogram intersection of both maps as densities.

    Parameters
    ----------
    saliency_map, reference_map : array-like, shape (height, width)
    convention : {"pysaliency", "mit"}
        "mit" first stretches both maps to minimum 0 (equal where the minimum is 0 already).

    Returns
    -------
    float
        In [0, 1]. NaN for a constant map under "mit".

    References
    ----------
    Judd, Durand, Torralba (2012), A benchmark of computational models of saliency to predict
    human fixations, MIT-CSAIL-TR-2012-001.
    """
    one_of("convention of sim", convention, SIM_CONVENTIONS)
    a, b = _both(saliency_map, reference_map)
    return float(np.minimum(1.0, kernels.sim_sum(a, b, convention == "mit")))


@register(
    "kl_div",
    inputs="map",
    bounds=(0.0, INFINITE),
    higher=False,
    description="Kullback-Leibler divergence of the reference from the map, in nats",
    formula="sum of q log(eps + q / (p + eps)), p = map, q = reference, eps = 2.2204e-16",
    citation=BYLINSKII,
)
def kl_div(
    saliency_map: ArrayLike, reference_map: ArrayLike, *, convention: str = "kld_mit"
) -> float:
    """Return the Kullback-Leibler divergence KL(reference || map), in nats.

    Parameters
    ----------
    saliency_map, reference_map : array-like, shape (height, width)
    convention : {"kld_mit", "kld_1e-20", "mit", "hat"}
        "kld_mit": eps 2.2204e-16 in the quotient and in the logarithm, as in the MIT/Tuebingen
        benchmark. "kld_1e-20": 1e-20 is added to every pixel of both maps instead. "mit": eps 2^-52
        as in the MIT code. "hat": eps 1e-12. The last two do not shift, and refuse, negative maps.

    Returns
    -------
    float
        Values below 0, which the eps makes out of equal maps (-1e-12, "hat" -1e-8), become 0.

    Notes
    -----
    On maps with zeros the value is set by the eps: state it beside the number. KL values of
    different conventions are not comparable.
    """
    one_of("convention of kl_div", convention, tuple(KL_CONVENTIONS))
    a, b = _both(saliency_map, reference_map)
    if convention in ("mit", "hat"):
        for array, name in ((a, "saliency map"), (b, "reference map")):
            if array.min() < 0:
                raise DataError(
                    f"the {name} has negative values, which convention {convention!r} cannot take",
                    expected="values of 0 or more",
                    found=f"a minimum of {float(array.min()):g}",
                    hint="Shift it knowingly, or use convention 'kld_mit', which shifts",
                )
    eps, extra = KL_CONVENTIONS[convention]
    return float(np.maximum(0.0, kernels.kl_sum(a, b, eps, extra)))


@register(
    "emd",
    inputs="map",
    bounds=(0.0, INFINITE),
    higher=False,
    symmetric=True,
    description="Earth mover's distance between both densities, in pixels",
    formula="least sum of mass x distance that turns one density into the other",
    citation="Rubner, Tomasi, Guibas (2000), International Journal of Computer Vision 40(2)",
)
def emd(
    saliency_map: ArrayLike,
    reference_map: ArrayLike,
    *,
    max_cells: int = 400,
) -> float:
    """Return the earth mover's distance of two maps as densities, in pixels of the maps.

    Parameters
    ----------
    saliency_map, reference_map : array-like, shape (height, width)
    max_cells : int
        Maps with more pixels are first summed in square blocks of the smallest side that leaves at
        most this many, and mass then sits at the centres of the blocks. `emd_block` gives the
        side; the result is at most sqrt(2) x (side - 1) pixels away from the exact distance.

    Returns
    -------
    float
        0 or more; exact where no blocks are needed.

    References
    ----------
    Rubner, Tomasi, Guibas (2000), International Journal of Computer Vision 40(2), 99-121.
    """
    a, b = _both(saliency_map, reference_map)
    side = emd_block(a.shape, max_cells)
    p, q = in_blocks(to_density(a), side), in_blocks(to_density(b, name="reference map"), side)
    return transport_cost(p, q, *block_centres(a.shape, side))


def emd_block(shape: tuple[int, ...], max_cells: int = 400) -> int:
    """Return the side of the blocks, in pixels, in which `emd` sums maps of `shape`."""
    return block_side(shape, whole("max_cells", max_cells))


def to_density(values: ArrayLike, *, floor: float = 0.0, name: str = "saliency map") -> Floats:
    """Return a map as a density: not negative, sum 1.

    A negative minimum is shifted to 0, `floor` is added to every pixel, and the map is divided by
    its sum; a map of zeros becomes uniform.

    Parameters
    ----------
    values : array-like, shape (height, width)
    floor : float
        Keeps information gain finite where the map is 0.

    Returns
    -------
    ndarray of float64, shape (height, width)
    """
    floor = positive("floor", floor, zero=True)
    array = as_map(values, name)
    out = np.empty(array.shape)
    return mass(array, name, floor).density(array, out)
