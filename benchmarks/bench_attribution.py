"""Perturbation attribution: many texts per forward pass against one pass per perturbed text.

    python benchmarks/bench_attribution.py [--model smollm2-135m] [--words 24] [--method shap]

Both ways run in one process on the same masks; the ratio and the largest difference are printed.
"""

from __future__ import annotations

import argparse
import time

import torch

from gazeattn.lm import LanguageModel
from gazeattn.lm._perturbation import coalitions
from gazeattn.lm._plan import AttentionOptions, Plan
from gazeattn.lm._scoring import Scorer

TEXT = (
    "The old man sat down on the bench near the harbour and looked at the quiet sea while the "
    "fishermen carried their nets back home before the rain began to fall again"
)


def one_by_one(scorer: Scorer, present: torch.Tensor) -> torch.Tensor:
    """Run the whole model once per row, with all logits, as a plain loop does."""
    out = []
    word = scorer.plan.key_word.clamp_max(scorer.plan.n_words - 1)
    for row in present.to(scorer.ids.device):
        keep = row[word] | ~scorer.plan.scored
        x = torch.where(keep[:, None], scorer.embeddings, scorer.baseline)
        if scorer.target == "pooled_norm":
            out.append(scorer(x[None])[0])
            continue
        logits = scorer.model(inputs_embeds=x[None]).logits[0].float()
        log_p = logits[scorer.at - 1].log_softmax(-1)
        out.append(log_p.gather(-1, scorer.ids[scorer.at][:, None]).sum())
    return torch.stack(out).double().cpu()


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--words", type=int, default=24)
    parser.add_argument("--method", choices=("shap", "occlusion"), default="shap")
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=2048)
    args = parser.parse_args()
    lm = LanguageModel.load(args.model)
    words = (TEXT.split() * (args.words // 10 + 1))[: args.words]
    encoded = lm.encode(words)
    device = next(lm.model.parameters()).device
    plan = Plan(encoded, AttentionOptions(attribution_tokens=args.tokens), device)
    scorer = Scorer(lm, encoded, plan)
    if args.method == "shap":
        present = torch.from_numpy(coalitions(len(words), args.samples, 0)[0])
    else:
        present = ~torch.eye(len(words), dtype=torch.bool)
    with torch.no_grad():
        scorer.masks(present[:2])  # (warm up)
        start = time.perf_counter()
        batched = scorer.masks(present)
        middle = time.perf_counter()
        single = one_by_one(scorer, present)
        end = time.perf_counter()
    fast, slow = middle - start, end - middle
    distinct = len(torch.unique(present, dim=0))
    print(f"{args.model} on {device}, {torch.get_num_threads()} threads, {len(encoded)} tokens")
    print(f"{len(present)} perturbed texts ({distinct} distinct), {scorer.rows} per forward pass")
    print(f"one forward per text {slow:.2f} s, batched {fast:.2f} s, ratio {slow / fast:.1f}")
    print(f"largest difference {float((batched - single).abs().max()):.2g}")


if __name__ == "__main__":
    main()
