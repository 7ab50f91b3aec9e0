"""Writing the question that a reader sought the answer to: a decoder with low-rank adapters."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gazeattn.datamodules.reading_features import Array
from gazeattn.datamodules.reading_goals import QUESTION, GoalTrials, paragraph_text, prompts
from gazeattn.datamodules.reading_scaling import FeatureChoice, FittedFeatures
from gazeattn.errors import DataError, UnknownNameError
from gazeattn.lm import LanguageModel
from gazeattn.models.goals._decoding import continuation_scores, write
from gazeattn.models.goals.base import CITATION
from gazeattn.registry import register_goal_model
from gazeattn.storage import atomic_path, write_json

PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FEATURES = (
    "duration", "x", "y", "landing", "word_share", "next_step", "previous_step", "next_distance",
    "next_angle",
)  # fmt: skip
SCANPATHS = ("list", "tokens", "none")
WEIGHTS, FACTS, FORMAT = "writer.safetensors", "writer.json", "gazeattn-goal-writer-1"


@dataclass(frozen=True)
class WriterTraining:
    """How the adapters are trained.

    Attributes
    ----------
    epochs : int
    lr, weight_decay : float
        Of AdamW; the rate rises over `warmup` steps and falls linearly to 0.
    accumulate : int
        Trials per step.
    warmup : int
    clip : float
        Largest norm of the gradient.
    """

    epochs: int = 2
    lr: float = 1e-4
    weight_decay: float = 0.01
    accumulate: int = 2
    warmup: int = 10
    clip: float = 1.0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> WriterTraining:
        """Return settings from a mapping, with defaults for what it lacks."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise UnknownNameError("training option", str(name), known)
        made = cls(**options)
        if made.epochs < 1 or made.accumulate < 1:
            raise DataError("training needs an epoch and a trial per step", expected="1 or more")
        return made


class FixationProjector(nn.Module):
    """Features of fixations as embeddings: two layers per fixation, two convolutions over time.

    Parameters
    ----------
    features, hidden, width
        Numbers per fixation, inside, and of an embedding.
    dropout
    scale
        Size of the embeddings at first, such as that of words.
    """

    def __init__(
        self, features: int, hidden: int, width: int, dropout: float = 0.1, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(features, hidden), nn.LeakyReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
        )  # fmt: skip
        self.over = nn.Sequential(
            nn.Conv1d(hidden, hidden, 3, padding=1), nn.LeakyReLU(),
            nn.Conv1d(hidden, width, 3, padding=1),
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)
        nn.init.constant_(self.norm.weight, scale)

    def forward(self, values: Tensor) -> Tensor:
        """Return embeddings (n, width) of the fixations (n, features) of one reading."""
        return self.norm(self.over(self.each(values).T[None])[0].T)


@register_goal_model(
    "writer",
    description="a decoder with adapters that reads paragraph and scanpath as a list of words",
    citation=CITATION,
    task="reconstruction",
    kind="model",
    control="writer_text",
)
class GoalWriter:
    """DalEye: a causal language model with low-rank adapters writes the question.

    Only the adapters (Hu et al. 2022, LoRA, ICLR; rank-stabilised, Kalajdzievski 2023) and the
    projector are trained, with the loss on the tokens of the question and its end alone. Readings
    go one by one, so that nothing is padded.

    Parameters
    ----------
    lm
        See `gazeattn.LanguageModel.load`; a causal model.
    rank, alpha
        Of the adapters, on all linear layers of attention and MLP.
    dropout
        Of adapters and projector.
    hidden
        Inside the projector; 512 or 1024 in the paper.
    most
        Fixations that the model is given, the first ones; None: all. `cut` counts the others.
    seed
        Of the first weights.
    root
        Data folder.
    """

    scanpath: ClassVar[str] = "list"

    def __init__(
        self,
        lm: str = "smollm2-135m",
        *,
        rank: int = 16,
        alpha: int = 16,
        dropout: float = 0.0,
        hidden: int = 512,
        most: int | None = None,
        seed: int = 0,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        from peft import LoraConfig, get_peft_model

        self.arguments = {"lm": lm, "rank": rank, "alpha": alpha, "dropout": dropout,
                          "hidden": hidden, "most": most}  # fmt: skip
        self.most, self.cut, self.seed, self.hidden = most, 0, int(seed), hidden
        self.dropout = dropout
        loaded = LanguageModel.load(lm, root=root)
        loaded.require("causal", "lm_head", by="written questions")
        self.tokenizer, self.sha = loaded.tokenizer, str(loaded.info.get("sha") or "")
        names = {n.rpartition(".")[2] for n, m in loaded.model.named_modules()
                 if isinstance(m, nn.Linear)}  # fmt: skip
        parts = [p for p in PARTS if p in names]
        if not parts:
            raise DataError("no layer for an adapter", expected=", ".join(PARTS),
                            found=", ".join(sorted(names)))  # fmt: skip
        config = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=dropout, use_rslora=True,
            target_modules=parts, task_type="CAUSAL_LM",
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.model: Any = get_peft_model(loaded.model, config)
        self.model.eval()
        self.projector: FixationProjector | None = None
        self.fitted: FittedFeatures | None = None
        end = loaded.model.generation_config.eos_token_id
        known = [*(end if isinstance(end, list) else [end]), self.tokenizer.eos_token_id]
        self.end = {int(e) for e in known if e is not None}
        if not self.end:
            raise DataError("the tokenizer has no token that ends a text", source=lm)

    # -- what the model is given ---------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def _ids(self, text: str, specials: bool = False) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=specials)["input_ids"])

    def _embed(self, ids: Sequence[int]) -> Tensor:
        return self.model.get_input_embeddings()(torch.tensor(list(ids), device=self.device))

    def given(self, goal: GoalTrials) -> list[tuple[Any, ...]]:
        """Return what stands before the question of each trial, ready for `embedded`."""
        if self.scanpath != "tokens":
            texts, self.cut = prompts(goal.trials, self.scanpath, self.most)
            return [(self._ids(t, True),) for t in texts]
        if self.fitted is None:
            raise DataError("the features are not fitted", hint="fit the writer first")
        values = self.fitted.apply(goal.trials)["fixation"]
        texts, _ = prompts(goal.trials, "none")
        out, self.cut = [], 0
        for i, text in enumerate(texts):
            a, b = (int(v) for v in goal.trials.starts[i : i + 2])
            kept = b - a if self.most is None else min(b - a, self.most)
            self.cut += b - a - kept
            head = f"{text.removesuffix(QUESTION)}\nFixations:"
            ids, places = self._placed(goal, i, head, goal.trials.word[a : a + kept])
            out.append((ids, values[a : a + kept], places))
        return out

    def _placed(
        self, goal: GoalTrials, i: int, head: str, word: Array | Any
    ) -> tuple[list[int], list[int]]:
        """Return the tokens of a text, and the place of the first token of each fixated word.

        A fixation beside the text stands at the end of it.
        """
        coded = self.tokenizer(head, add_special_tokens=True, return_offsets_mapping=True)
        ids, offsets = list(coded["input_ids"]), np.array(coded["offset_mapping"]).reshape(-1, 2)
        at = head.rindex(paragraph_text(goal.trials, i))
        first = []
        for w in goal.trials.texts[str(goal.trials.table["text"].iloc[i])].words:
            first.append(at)  # a word that is only a blank shares the place of the next one
            at += len(w) + 1 if w.strip() else 0
        ends = np.maximum.accumulate(offsets[:, 1])
        tokens = np.searchsorted(ends, np.array(first, dtype=np.int64), side="right")
        tokens = np.append(np.minimum(tokens, len(ids) - 1), len(ids) - 1)
        return ids, [int(v) for v in tokens[np.where(word >= 0, word, len(first))]]

    def embedded(self, given: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
        """Return embeddings (n, width) and places (n,) of what stands before the question."""
        text = self._embed(given[0])
        places = torch.arange(len(text), device=self.device)
        if len(given) == 1:
            return text, places
        assert self.projector is not None
        fixations = self.projector(torch.as_tensor(given[1], device=self.device))
        asks = self._embed(self._ids(QUESTION))
        later = len(text) + torch.arange(len(asks), device=self.device)
        at = torch.tensor(given[2], dtype=torch.long, device=self.device)
        return torch.cat([text, fixations.to(text.dtype), asks]), torch.cat([places, at, later])

    def question_tokens(self, question: str) -> list[int]:
        """Return the tokens of a question and its end."""
        return [*self._ids(f" {question}"), min(self.end)]

    def loss(self, given: tuple[Any, ...], question: str) -> Tensor:
        """Return the mean cross entropy of the tokens of the question and its end."""
        embedded, places = self.embedded(given)
        ids = torch.tensor(self.question_tokens(question), device=self.device)
        own = self.model.get_input_embeddings()(ids[:-1])
        after = places[-1] + 1 + torch.arange(len(own), device=self.device)
        whole = torch.cat([embedded, own])[None]
        # without a mask, places that go back would be taken for the start of another text
        mask = torch.ones(whole.shape[:2], dtype=torch.long, device=self.device)
        logits = self.model(
            inputs_embeds=whole, position_ids=torch.cat([places, after])[None],
            attention_mask=mask, logits_to_keep=len(ids), use_cache=False,
        ).logits[0]  # fmt: skip
        return F.cross_entropy(logits.float(), ids)

    # -- training, writing, scoring ------------------------------------------------------------

    def prepare(self, train: GoalTrials) -> None:
        """Fit the scale of the features and make the projector, for fixations as tokens."""
        if self.scanpath != "tokens":
            return
        choice = FeatureChoice(fixation=FEATURES, gaze=(), text=())
        self._project(FittedFeatures.fit(train.trials, choice))

    def _project(self, fitted: FittedFeatures) -> None:
        table = self.model.get_input_embeddings().weight
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.projector = FixationProjector(
                len(fitted.scales["fixation"].channels), self.hidden, table.shape[1], self.dropout,
                float(table.float().std()),
            ).to(table.device).eval()  # fmt: skip
        self.fitted = fitted

    def trained(self) -> list[nn.Parameter]:
        """Return the parameters that are trained."""
        own = [p for p in self.model.parameters() if p.requires_grad]
        return own + ([] if self.projector is None else list(self.projector.parameters()))

    def fit(
        self,
        train: GoalTrials,
        settings: WriterTraining,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> list[float]:
        """Train the adapters; return the mean loss of each epoch."""
        self.prepare(train)
        given, questions = self.given(train), train.questions
        parameters = self.trained()
        optimizer = torch.optim.AdamW(
            parameters, lr=settings.lr, weight_decay=settings.weight_decay
        )
        per_epoch = -(-len(train) // settings.accumulate)
        total, step, curve = per_epoch * settings.epochs, 0, []
        modules = [self.model] + ([] if self.projector is None else [self.projector])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            for module in modules:
                module.train()
            for epoch in range(settings.epochs):
                order = np.random.default_rng([self.seed, epoch]).permutation(len(train))
                losses = []
                for begin in range(0, len(order), settings.accumulate):
                    rows = order[begin : begin + settings.accumulate]
                    rise = min(1.0, (step + 1) / max(1, min(settings.warmup, total // 2)))
                    for group in optimizer.param_groups:
                        group["lr"] = settings.lr * min(rise, 1 - step / total)
                    optimizer.zero_grad()
                    for i in rows:
                        loss = self.loss(given[i], questions[i])
                        (loss / len(rows)).backward()
                        losses.append(float(loss.detach()))
                    if not np.isfinite(losses[-len(rows) :]).all():
                        names = ", ".join(map(str, train.trials.trial[rows]))
                        raise DataError("the loss is not finite", found=f"trials {names}")
                    nn.utils.clip_grad_norm_(parameters, settings.clip)
                    optimizer.step()
                    step += 1
                    if progress is not None:
                        progress(step, total, losses[-1])
                curve.append(float(np.mean(losses)))
            for module in modules:
                module.eval()
        return curve

    def write(self, goal: GoalTrials, *, beams: int = 1, longest: int = 32) -> list[str]:
        """Return the question that is written for each trial; greedy with one beam."""
        out = []
        with torch.inference_mode():
            for given in self.given(goal):
                embedded, places = self.embedded(given)
                tokens = write(
                    self.model, embedded, places, end=self.end, longest=longest, beams=beams
                )
                text = str(self.tokenizer.decode(tokens, skip_special_tokens=True))
                lines = text.strip().splitlines()
                out.append(" ".join(lines[0].split()) if lines else "")
        return out

    def scores(self, goal: GoalTrials) -> Array:
        """Return the mean token log probability of each candidate, (n, most)."""
        if self.scanpath == "tokens":
            return self._loss_scores(goal)
        out = np.full((len(goal), goal.most), np.nan)
        for i, given in enumerate(self.given(goal)):
            asked = [self.question_tokens(q) for q in goal.candidates[i]]
            prompt = torch.tensor(given[0], device=self.device)
            found = continuation_scores(self.model, prompt, asked)
            out[i, : len(asked)] = [total / n for total, n in found]
        return out

    def _loss_scores(self, goal: GoalTrials) -> Array:
        out = np.full((len(goal), goal.most), np.nan)
        with torch.inference_mode():
            for i, given in enumerate(self.given(goal)):
                for k, question in enumerate(goal.candidates[i]):
                    out[i, k] = -float(self.loss(given, question))
        return out

    # -- files ---------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write adapters and projector (safetensors) and what else is needed (JSON)."""
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        tensors = {f"adapter.{k}": v for k, v in get_peft_model_state_dict(self.model).items()}
        if self.projector is not None:
            tensors |= {f"projector.{k}": v for k, v in self.projector.state_dict().items()}
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / WEIGHTS) as path:
            save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, path)
        facts = {
            "format": FORMAT, "scanpath": self.scanpath, "arguments": self.arguments,
            "seed": self.seed, "sha": self.sha,
            "fitted": None if self.fitted is None else self.fitted.plain(),
        }  # fmt: skip
        write_json(folder / FACTS, facts)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
    ) -> GoalWriter:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            Not a writer of this class, or made with another language model.
        """
        from peft import set_peft_model_state_dict
        from safetensors.torch import load_file

        folder = Path(folder)
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        found = {k: facts.get(k) for k in ("format", "scanpath")}
        if found != {"format": FORMAT, "scanpath": cls.scanpath}:
            raise DataError("not a writer of this kind", source=folder,
                            expected=f"{FORMAT}, {cls.scanpath}", found=found)  # fmt: skip
        made = cls(**facts["arguments"], seed=int(facts["seed"]), root=root)
        if facts["sha"] and made.sha and facts["sha"] != made.sha:
            raise DataError("the language model is another than the one in training",
                            source=folder, expected=facts["sha"][:12],
                            found=made.sha[:12])  # fmt: skip
        tensors = load_file(folder / WEIGHTS)
        adapter = {k[8:]: v for k, v in tensors.items() if k.startswith("adapter.")}
        state: Any = set_peft_model_state_dict(made.model, adapter)
        if state.unexpected_keys or not adapter:
            raise DataError("the adapters do not fit the model", source=folder,
                            found=", ".join(state.unexpected_keys[:3]))  # fmt: skip
        if facts["fitted"] is not None:
            made._project(FittedFeatures.from_plain(facts["fitted"]))
            assert made.projector is not None
            own = {k[10:]: v for k, v in tensors.items() if k.startswith("projector.")}
            made.projector.load_state_dict(own)
        return made


@register_goal_model(
    "writer_tokens",
    description="the same with fixations as projected embeddings at the places of their words",
    citation=CITATION,
    task="reconstruction",
    kind="model",
    control="writer_text",
)
class TokenWriter(GoalWriter):
    """As DalEye-LLaVA: fixations enter as embeddings, each at the position of its word."""

    scanpath: ClassVar[str] = "tokens"


@register_goal_model(
    "writer_text",
    description="text-only control: the same decoder and training without the scanpath",
    citation=CITATION,
    task="reconstruction",
    kind="control",
)
class TextWriter(GoalWriter):
    """The text-only control of `GoalWriter` and `TokenWriter`."""

    scanpath: ClassVar[str] = "none"
