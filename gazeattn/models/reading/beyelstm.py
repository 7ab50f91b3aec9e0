"""Three LSTMs over what was fixated and how, beside numbers of the trial (BEyeLSTM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gazeattn.datamodules.reading_batches import ReadingBatch
from gazeattn.datamodules.reading_scaling import FeatureChoice
from gazeattn.errors import DataError
from gazeattn.models.reading.ahn import PackedLSTM, dense, fixation_width, mean_and_max
from gazeattn.models.reading.base import ReadingNetwork, at_fixations
from gazeattn.registry import register_reading_model

FEATURES = ("duration", "pupil", "x", "y", "on_text")
WORD_FEATURES = ("length", "rarity", "line_start", "line_end", "sentence_end")
SETS = (
    "speed", "meziere", "saccades", "counts", "distributions", "transitions", "slopes", "entropy",
)  # fmt: skip
EDGES = (-0.5, 0.0, 0.5)
"""Between the four bins of a word feature, in interquartile ranges from the training median:
about its quartiles."""
BINS = len(EDGES) + 1
OFF, FUNCTION, CONTENT = 0, 1, 2


def word_columns(width: int) -> dict[str, int]:
    """Return the column of each word feature that the data have, by its name.

    Rarity is missing as a whole in languages without a list of frequencies, start and end of lines
    (both at once) where lines are not known; length and sentence end never. So the number of
    columns tells which are there.

    Raises
    ------
    DataError
        Not a number of columns of this model's choice of features.
    """
    lacking: dict[int, tuple[str, ...]] = {
        5: (),
        4: ("rarity",),
        3: ("line_start", "line_end"),
        2: ("rarity", "line_start", "line_end"),
    }
    if width not in lacking:
        raise DataError(
            "beyelstm does not know these columns of words", expected="2 to 5", found=width,
            hint="make the inputs with the features of BEyeLSTM.choice",
        )  # fmt: skip
    names = [n for n in WORD_FEATURES if n not in lacking[width]]
    return {n: k for k, n in enumerate(names)}


def content_class(words: Tensor, columns: Mapping[str, int]) -> Tensor:
    """Return `CONTENT` for words that are long and rare, else `FUNCTION`.

    A word counts as a content word where its length and its rarity, each measured from the
    training median in interquartile ranges, add up to more than 0; where rarity is not known, its
    length alone.

    Parameters
    ----------
    words : Tensor, shape (..., len(columns))

    Returns
    -------
    Tensor of int64, shape (...)
    """
    score = words[..., columns["length"]]
    if "rarity" in columns:
        score = score + words[..., columns["rarity"]]
    return torch.where(score > 0, CONTENT, FUNCTION)


@register_reading_model(
    "beyelstm",
    description="LSTMs over word categories and fixations, beside aggregates of the trial",
    citation="Reich, Prasse, Tschirner, Haller, Goldhammer & Jäger 2022, ETRA",
    kind="network",
    needs=("words",),
)
class BEyeLSTM(ReadingNetwork):
    """BEyeLSTM: three sequences in the order of fixations and one block of global numbers.

    Each of the three sequences has a bidirectional LSTM of its own, mean and largest state over
    the real steps, and two layers (50, 20). The global numbers go through one layer (32). All of
    it together, 92 numbers, goes through a last hidden layer.

    The published sequences are five classes of part of speech, content against function words, and
    fixations. There is no tagger here, so words are told apart by what every corpus has:

    - in place of the part of speech, the sum of learned vectors for the bin of the word's length,
      the bin of its rarity (four each, about the quartiles of training), and whether it starts or
      ends a line or ends a sentence;
    - content against function word by length and rarity, see `content_class`;
    - off the text, a learned vector of its own in both.

    In place of the published means per category, the global block takes named sets of aggregates:
    ``slopes`` says how measures change with length and rarity. Stationary and transition gaze
    entropy are in ``entropy``, over cells of three words instead of 138 pixels
    (`gazeattn.datamodules.reading_aggregates.gaze_entropies`).

    Parameters
    ----------
    target, widths
        See `gazeattn.models.reading.base.ReadingNetwork`.
    text
        False: BEyeLSTM-NoText, the sequence of fixations and the global block alone. Then leave
        ``slopes`` out of `sets`, which looks at words.
    features
        Names of fixation features. ``on_text`` stands beside the four published ones, because a
        fixation off the text may have no position.
    sets
        Of aggregates (`gazeattn.datamodules.reading_aggregates.aggregates`).
    embedding
        Width of the vectors of word categories; the paper searches 4 and 8.
    hidden
        Width of each direction of the LSTMs; 64 and 128 in the paper's search.
    dense_sizes
        Layers after each LSTM.
    global_size, joint_size
        Layer of the global block, and the last hidden layer.
    dropout
        Before each linear layer.
    lr, weight_decay, warmup_epochs
        See `gazeattn.models.network.Network`.

    References
    ----------
    Reich, D. R., Prasse, P., Tschirner, C., Haller, P., Goldhammer, F., & Jäger, L. A. (2022).
    Inferring native and non-native human reading comprehension and subjective text difficulty from
    scanpaths in reading. ETRA. Without text: Shubi, O., Hadar, Y., & Berzak, Y. (2025). Decoding
    reading goals from eye movements. ACL.
    """

    edges: Tensor

    def __init__(
        self,
        target: Mapping[str, Any],
        widths: Mapping[str, int],
        *,
        text: bool = True,
        features: Sequence[str] = FEATURES,
        sets: Sequence[str] = SETS,
        embedding: int = 8,
        hidden: int = 64,
        dense_sizes: Sequence[int] = (50, 20),
        global_size: int = 32,
        joint_size: int = 32,
        dropout: float = 0.3,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        warmup_epochs: float = 0.0,
    ) -> None:
        super().__init__(
            target, widths, lr=lr, weight_decay=weight_decay, warmup_epochs=warmup_epochs
        )
        self.save_hyperparameters()
        inputs = {"fixations": fixation_width(self.widths, "beyelstm")}
        self.columns: dict[str, int] = {}
        if text:
            self.columns = word_columns(self.widths.get("text", 0))
            # one slot per bin of each column, and one for fixations off the text
            self.categories = nn.Embedding(1 + BINS * len(self.columns), embedding)
            self.contents = nn.Embedding(3, embedding)
            inputs |= {"categories": embedding, "contents": embedding}
        self.sequences = nn.ModuleDict({k: PackedLSTM(v, hidden) for k, v in inputs.items()})
        self.summaries = nn.ModuleDict(
            {
                k: nn.Sequential(dense([4 * hidden, *dense_sizes], dropout), nn.ReLU())
                for k in inputs
            }
        )
        joint = len(inputs) * int(dense_sizes[-1])
        numbers = self.widths.get("trial", 0)
        if numbers:
            self.numbers = nn.Sequential(
                nn.Dropout(dropout), nn.Linear(numbers, global_size), nn.ReLU()
            )
            joint += global_size
        self.head = dense([joint, joint_size, self.target.outputs], dropout)
        self.register_buffer("edges", torch.tensor(EDGES).asinh(), persistent=False)

    @classmethod
    def choice(cls, config: Mapping[str, Any]) -> FeatureChoice:
        """Return fixations, words (with text) and sets of aggregates, without columns of flags."""
        return FeatureChoice(
            fixation=tuple(config.get("features") or FEATURES),
            gaze=(),
            text=WORD_FEATURES if config.get("text", True) else (),
            sets=tuple(SETS if config.get("sets") is None else config["sets"]),
            flags=False,
        )

    def word_sequences(self, batch: ReadingBatch) -> dict[str, Tensor]:
        """Return the vectors of the categories of the fixated words, (batch, length, embedding)."""
        words = at_fixations(batch.text, batch)
        on_text = (batch.word >= 0)[..., None]
        # values are squashed, so the edges are too
        first = 1 + BINS * torch.arange(len(self.columns), device=words.device)
        bins = torch.bucketize(words.contiguous(), self.edges) + first
        off_text = self.categories(torch.zeros_like(batch.word))
        kind = content_class(words, self.columns).masked_fill(~on_text[..., 0], OFF)
        return {
            "categories": torch.where(on_text, self.categories(bins).sum(-2), off_text),
            "contents": self.contents(kind),
        }

    def forward(self, batch: ReadingBatch) -> Tensor:
        """Return logits or the scaled value, (batch, target.outputs)."""
        steps = {"fixations": batch.fixations}
        if self.columns:
            steps |= self.word_sequences(batch)
        parts = []
        for name, values in steps.items():
            states = self.sequences[name](values, batch.mask)
            parts.append(self.summaries[name](mean_and_max(states, batch.mask)))
        if self.widths.get("trial", 0):
            parts.append(self.numbers(batch.numbers))
        return self.head(torch.cat(parts, dim=-1))
