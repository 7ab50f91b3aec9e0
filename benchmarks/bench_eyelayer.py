"""A gaze layer in SmolLM2 against the model without it: forward time, memory, training.

Run with ``python benchmarks/bench_eyelayer.py``. Targets at 2,048 tokens: at most 5 % more forward
time and 3 % more memory; training with low-rank adapters at least 0.9 of the speed without the
layer. Code of 2,000 tokens, a summary of 48. Passes with and without the layer alternate in one
process; the median of each counts. Memory is the highest resident size of a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

LENGTH, SUMMARY = 2048, 48
TIME, MEMORY, TRAINING = 1.05, 1.03, 0.9


def batch(length: int) -> tuple[Any, Any, Any]:
    """Return ids, code mask and start of a prompt of code with a summary behind it."""
    import torch

    torch.manual_seed(0)
    ids = torch.randint(1000, 40000, (1, length))
    code = torch.zeros(1, length, dtype=torch.bool)
    code[0, : length - SUMMARY] = True
    return ids, code, torch.tensor([length - SUMMARY - 1])


def model_of(lora: bool) -> Any:
    """Return SmolLM2, with adapters on all linear layers where wanted."""
    from gazeattn import LanguageModel

    model = LanguageModel.load("smollm2-135m").model
    if lora:
        from peft import LoraConfig, get_peft_model

        parts = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=16, target_modules=parts))
    return model


def layer_of(model: Any) -> Any:
    """Return the layer, attached."""
    from gazeattn.models.gaze_prior.attach import attach
    from gazeattn.models.gaze_prior.eyelayer import EyeLayer

    return attach(model, EyeLayer(model.config.hidden_size, content=16))


def forward_ratio(repeats: int, length: int) -> float:
    """Return the time of a forward pass with the layer over that without it."""
    import torch

    model = model_of(False)
    ids, code, start = batch(length)
    held = layer_of(model)
    times: dict[bool, list[float]] = {False: [], True: []}
    with torch.inference_mode():
        model(input_ids=ids)
        for k in range(2 * repeats):
            told = bool(k % 2)
            began = time.perf_counter()
            if told:
                with held.code(code, start):
                    model(input_ids=ids)
            else:
                model(input_ids=ids)
            times[told].append(time.perf_counter() - began)
    plain, with_layer = (statistics.median(times[t]) for t in (False, True))
    print(f"forward, {length} tokens        {plain:7.2f} s without, {with_layer:7.2f} s with")
    return with_layer / plain


def training_ratio(steps: int, length: int) -> float:
    """Return steps per second with the layer over those without it, both with adapters."""
    import torch

    model = model_of(True)
    ids, code, start = batch(length)
    labels = ids.clone()
    labels[:, : length - SUMMARY] = -100
    held = layer_of(model)
    target = code / code.sum()
    optimiser = torch.optim.AdamW(
        [p for p in [*model.parameters(), *held.prior.parameters()] if p.requires_grad], 1e-4
    )
    times: dict[bool, list[float]] = {False: [], True: []}
    for k in range(2 * steps + 2):
        told = bool(k % 2)
        began = time.perf_counter()
        if told:
            with held.code(code, start):
                loss = model(input_ids=ids, labels=labels).loss + 0.1 * held.loss(target)
        else:
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        if k > 1:
            times[told].append(time.perf_counter() - began)
    plain, with_layer = (statistics.median(times[t]) for t in (False, True))
    print(f"training step, {length} tokens  {plain:7.2f} s without, {with_layer:7.2f} s with")
    return plain / with_layer


def peak(told: bool, length: int) -> None:
    """Run one pass and print the highest resident size of the process, in MiB."""
    import torch

    model = model_of(False)
    ids, code, start = batch(length)
    with torch.inference_mode():
        if told:
            with layer_of(model).code(code, start):
                model(input_ids=ids)
        else:
            model(input_ids=ids)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def memory_ratio(length: int) -> float:
    """Return the memory with the layer over that without it."""
    sizes = []
    for told in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--peak", told, "--length", str(length)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        sizes.append(float(done.stdout.split()[-1]))
    print(f"memory                      {sizes[0]:7.0f} MiB without, {sizes[1]:7.0f} MiB with")
    return sizes[1] / sizes[0]


def main() -> int:
    """Print the table; the exit status says whether all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--training-length", type=int, default=512)
    parser.add_argument("--peak", choices=["0", "1"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak is not None:
        peak(args.peak == "1", args.length)
        return 0
    from gazeattn.errors import MissingAssetError

    try:
        found = (
            forward_ratio(args.repeats, args.length),
            memory_ratio(args.length),
            training_ratio(args.steps, args.training_length),
        )
    except MissingAssetError:
        print("smollm2-135m is not on this machine: not measured")
        return 0
    print(f"{'forward time (target: at most 1.05)':<46} {found[0]:6.3f}")
    print(f"{'memory (target: at most 1.03)':<46} {found[1]:6.3f}")
    print(f"{'training throughput (target: at least 0.9)':<46} {found[2]:6.3f}")
    return 0 if found[0] <= TIME and found[1] <= MEMORY and found[2] >= TRAINING else 1


if __name__ == "__main__":
    raise SystemExit(main())
