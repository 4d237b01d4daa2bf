"""The callbacks in real trainings by Lightning (both namespaces) and by the Hugging Face Trainer."""

import importlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing here needs the network

import lightning.pytorch as lightning_new
import pytest
import pytorch_lightning as lightning_old
import torch
import torch.nn.functional as F
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler, TensorDataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

from netgrain.complexity.callbacks import inputs_and_labels, random_batch
from netgrain.complexity.estimators import geometric_complexity
from netgrain.complexity.lightning_callback import ComplexityCallback as LightningCallback
from netgrain.complexity.transformers_callback import ComplexityCallback as TrainerCallback
from netgrain.runtime.errors import GrainWarning, NetgrainError

# Lightning warns of few workers and long logging intervals, and uses a part of torch that is on its way out
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*(logging interval|many workers):UserWarning"),
]

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] + X[:, 2] > 0).long()


def scalars(folder: Path, name: str) -> dict[int, float]:
    files = list(folder.rglob("events.out.tfevents*"))
    assert files, f"no event file below {folder}"
    found: dict[int, float] = {}
    for file in files:
        events = EventAccumulator(str(file)).Reload()
        if name in events.Tags()["scalars"]:
            steps = [event.step for event in events.Scalars(name)]
            assert len(set(steps)) == len(steps), "a step was logged twice"
            found |= {event.step: event.value for event in events.Scalars(name)}
    return found


# --- Lightning --------------------------------------------------------------------------------------------------------


def lightning_module(pl: Any, dropout: float = 0.2) -> Any:
    class Classifier(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, y = batch
            loss = F.cross_entropy(self(x), y)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val", F.cross_entropy(self(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.3)

    torch.manual_seed(0)
    return Classifier()


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, Y), batch_size=8, **({"shuffle": True} | options))


def fit(
    pl: Any, folder: Path, callback: Any, *, steps: int = 10, data: Any = None, module: Any = None, **options: Any
) -> tuple[Any, Any]:
    module = lightning_module(pl) if module is None else module
    ckpt = options.pop("ckpt_path", None)
    trainer = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=pl.loggers.TensorBoardLogger(str(folder), name="logs"),
        callbacks=[callback] if callback is not None else [],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=str(folder),
        log_every_n_steps=7,
        **options,
    )
    torch.manual_seed(4)
    trainer.fit(module, loader() if data is None else data, loader(shuffle=False), ckpt_path=ckpt)
    return trainer, module


BOTH = pytest.mark.parametrize("pl", [lightning_new, lightning_old], ids=["lightning.pytorch", "pytorch_lightning"])


@BOTH
def test_lightning_scalars_arrive_in_tensorboard(pl: Any, tmp_path: Path) -> None:
    callback = LightningCallback(X, Y, every_n_steps=4, points=20)
    trainer, module = fit(pl, tmp_path, callback)
    assert callback.tracker.steps == [0, 4, 8, 10]
    gc = callback.tracker.history["gc"]
    assert scalars(tmp_path, "complexity/gc") == pytest.approx(
        dict(zip([0, 4, 8, 10], [v.value for v in gc], strict=True))
    )
    assert len(scalars(tmp_path, "complexity/accuracy")) == 4
    assert gc[-1] == geometric_complexity(module.eval(), callback.tracker.X).value
    assert trainer.callback_metrics["complexity/gc"].item() == pytest.approx(gc[2].value)  # the last in training


@BOTH
def test_lightning_training_is_the_same_bit_for_bit(pl: Any, tmp_path: Path) -> None:
    weights = []
    for callback in (LightningCallback(every_n_steps=3), None):
        _, module = fit(pl, tmp_path / str(callback is None), callback)
        weights.append(module.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(weights[0].values(), weights[1].values(), strict=True))


@BOTH
@pytest.mark.filterwarnings("ignore:Be aware that when using:UserWarning")  # resumed without the ModelCheckpoint
def test_lightning_checkpoint_resumes_the_history(pl: Any, tmp_path: Path) -> None:
    same = {"steps": 15, "data": loader(shuffle=False)}
    whole = LightningCallback(every_n_steps=4, points=16)
    fit(pl, tmp_path / "whole", whole, module=lightning_module(pl, 0.0), **same)
    first = LightningCallback(every_n_steps=4, points=16)
    saver = pl.callbacks.ModelCheckpoint(dirpath=str(tmp_path / "saved"), filename="half", every_n_train_steps=10)
    trainer = pl.Trainer(
        max_steps=10,
        accelerator="cpu",
        logger=False,
        callbacks=[first, saver],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(lightning_module(pl, 0.0), loader(shuffle=False), loader(shuffle=False))
    assert first.tracker.steps == [0, 4, 8, 10]
    again = LightningCallback(every_n_steps=4, points=16)
    half = str(tmp_path / "saved" / "half.ckpt")
    fit(pl, tmp_path / "rest", again, module=lightning_module(pl, 0.0), ckpt_path=half, **same)
    assert again.tracker.steps == whole.tracker.steps == [0, 4, 8, 12, 15]
    assert again.tracker.history["gc"] == pytest.approx(whole.tracker.history["gc"])
    assert scalars(tmp_path / "rest", "complexity/gc").keys() == {12, 15}
    other = LightningCallback(X + 1, Y, every_n_steps=4, points=16)
    with pytest.raises(NetgrainError, match="the checkpoint belongs to another tracker: expected X "):
        fit(pl, tmp_path / "other", other, steps=15, ckpt_path=half)


def test_lightning_takes_samples_of_the_training_data(tmp_path: Path) -> None:
    callback = LightningCallback(every_n_steps=5, points=12)
    fit(lightning_new, tmp_path, callback)
    tracker = callback.tracker
    assert tracker.X.shape == (12, 6)
    places = [int((x == X).all(1).nonzero()) for x in tracker.X]
    assert torch.equal(Y[places], tracker.y)
    assert len(set(places)) == 12


def test_lightning_streams_and_special_samplers_give_their_first_batch(tmp_path: Path) -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(zip(X, Y, strict=True))

    callback = LightningCallback(every_n_steps=5, points=12)
    fit(lightning_new, tmp_path / "stream", callback, data=DataLoader(Stream(), batch_size=8))
    assert torch.equal(callback.tracker.X, X[:8])
    some = DataLoader(TensorDataset(X, Y), batch_size=8, sampler=SubsetRandomSampler(range(10)))
    callback = LightningCallback(every_n_steps=5, points=12)
    fit(lightning_new, tmp_path / "some", callback, data=some)
    assert all(bool((x == X[:10]).all(1).any()) for x in callback.tracker.X)


def test_lightning_stream_resumed_on_other_points_is_said(tmp_path: Path) -> None:
    first = LightningCallback(every_n_steps=5, points=8)
    some = {"sampler": SubsetRandomSampler(range(20)), "shuffle": False}
    trainer, _ = fit(lightning_new, tmp_path, first, steps=6, data=loader(**some))
    path = str(tmp_path / "a.ckpt")
    trainer.save_checkpoint(path)
    again = LightningCallback(every_n_steps=5, points=8)
    with pytest.warns(GrainWarning, match="on other points than before the checkpoint"):
        fit(lightning_new, tmp_path, again, data=loader(**some), ckpt_path=path)
    assert again.tracker.steps == [0, 5, 6, 10]


def test_lightning_gradient_accumulation_counts_optimiser_steps(tmp_path: Path) -> None:
    callback = LightningCallback(X, Y, every_n_steps=2)
    fit(lightning_new, tmp_path, callback, steps=4, accumulate_grad_batches=2)
    assert callback.tracker.steps == [0, 2, 4]
    assert list(scalars(tmp_path, "complexity/gc")) == [0, 2, 4]


def test_lightning_submodule_and_labels_of_another_task(tmp_path: Path) -> None:
    callback = LightningCallback(X, Y, every_n_steps=5, module="net", layer="2")
    _, module = fit(lightning_new, tmp_path, callback)
    assert callback.tracker.history["gc"][-1] == geometric_complexity(module.net.eval()[:3], callback.tracker.X).value
    missing = LightningCallback(X, Y, module="nett")
    with pytest.raises(NetgrainError, match="Classifier has no submodule 'nett'; expected one such as net"):
        fit(lightning_new, tmp_path, missing)

    class Single(lightning_new.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(6, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return F.mse_loss(self(batch[0])[:, 0], batch[1].float())

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            pass

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.3)

    callback = LightningCallback(every_n_steps=5)  # counts to be regressed: whole numbers, but not classes
    fit(lightning_new, tmp_path, callback, module=Single(), data=DataLoader(TensorDataset(X, Y + 3), batch_size=8))
    assert "gc" in callback.tracker.history
    assert "margin" not in callback.tracker.history


def test_lightning_second_training_starts_anew(tmp_path: Path) -> None:
    callback = LightningCallback(X, Y, every_n_steps=4)
    fit(lightning_new, tmp_path, callback, steps=5)
    old = callback.tracker
    fit(lightning_new, tmp_path, callback, steps=3)
    assert old.steps == [0, 4, 5]
    assert callback.tracker.steps == [0, 3]


def test_lightning_bad_input(tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match="labels y were given without their inputs"):
        LightningCallback(y=Y)
    with pytest.raises(NetgrainError, match="every expects a whole number"):
        fit(lightning_new, tmp_path, LightningCallback(X, Y, every_n_steps=0))
    with pytest.raises(NetgrainError, match="expected floating-point samples"):
        fit(lightning_new, tmp_path, LightningCallback(X.long(), Y))
    with pytest.raises(NetgrainError, match=r"expected batches x or \(x, y\) with a tensor x, found dict"):
        inputs_and_labels({"x": X})
    with pytest.raises(NetgrainError, match="found list"):
        inputs_and_labels([[X], Y])


# --- Hugging Face -----------------------------------------------------------------------------------------------------

IMAGES = torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(1))
CLASSES = (IMAGES.mean((1, 2, 3)) > 0).long()
TOKENS = torch.randint(1, 30, (24, 7), generator=torch.Generator().manual_seed(2))
MASK = torch.ones_like(TOKENS)
MASK[::2, 5:] = 0


class Rows(Dataset[Any]):
    """A data set of dicts, as the Trainer wants them."""

    def __init__(self, **columns: Tensor) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["labels"])

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {name: column[i] for name, column in self.columns.items()}


PICTURES = Rows(pixel_values=IMAGES, labels=CLASSES)
SENTENCES = Rows(input_ids=TOKENS, attention_mask=MASK, labels=CLASSES)


def vit() -> nn.Module:
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, num_channels=1, num_labels=2, **size))


def bert() -> nn.Module:
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=30, max_position_embeddings=16, num_labels=2, **size))


class Plain(nn.Module):
    """Not of transformers at all; returns a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.net(pixel_values)
        return {"logits": logits} | ({} if labels is None else {"loss": F.cross_entropy(logits, labels)})


def plain() -> Plain:
    torch.manual_seed(0)
    return Plain()


def trainer_of(model: nn.Module, data: Any, folder: Path, *, steps: int = 6, **options: Any) -> Trainer:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder / "logs")
    settings = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 8,
        "learning_rate": 0.01,
        "report_to": ["tensorboard"],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "logging_steps": 5,
        "seed": 0,
    }
    return Trainer(model=model, args=TrainingArguments(**(settings | options)), train_dataset=data)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", "")  # set by trainer_of, put back here


def test_trainer_scalars_arrive_in_history_and_tensorboard(tmp_path: Path) -> None:
    trainer = trainer_of(vit(), PICTURES, tmp_path)
    callback = TrainerCallback(trainer, every_n_steps=4, points=16)
    trainer.add_callback(callback)
    trainer.train()
    tracker = callback.tracker
    assert tracker.steps == [0, 4, 6]
    gc = {step: value.value for step, value in zip(tracker.steps, tracker.history["gc"], strict=True)}
    logged = {row["step"]: row for row in trainer.state.log_history if "complexity/gc" in row}
    assert {step: row["complexity/gc"] for step, row in logged.items()} == gc
    assert scalars(tmp_path, "train/complexity/gc") == pytest.approx(gc)
    assert {"complexity/margin", "complexity/accuracy", "complexity/gc_stderr", "epoch"} <= set(logged[4])
    assert len(list(tmp_path.rglob("events.out.tfevents*"))) == 1, "the last row came before the writer was closed"
    assert tracker.X.shape == (16, 1, 8, 8)
    assert gc[6] == geometric_complexity(trainer.model.eval(), tracker.X).value


def test_trainer_training_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    weights = []
    for watched in (True, False):
        trainer = trainer_of(vit(), PICTURES, tmp_path / str(watched))
        if watched:
            trainer.add_callback(TrainerCallback(trainer, every_n_steps=2))
        trainer.train()
        weights.append(trainer.model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(weights[0].values(), weights[1].values(), strict=True))


def test_trainer_with_a_plain_module_and_inputs_of_ones_own(tmp_path: Path) -> None:
    model = plain()
    trainer = trainer_of(model, PICTURES, tmp_path)
    callback = TrainerCallback(trainer, {"pixel_values": IMAGES[:10]}, CLASSES[:10], every_n_steps=3, layer="net.1")
    trainer.add_callback(callback)
    trainer.train()
    assert callback.tracker.steps == [0, 3, 6]
    weight = model.net[1].weight.detach().double()
    assert callback.tracker.history["gc"][-1].value == pytest.approx(float(weight.square().sum()), rel=1e-5)
    assert torch.equal(callback.tracker.y, CLASSES[:10])


def test_trainer_token_model_in_embedding_space(tmp_path: Path) -> None:
    trainer = trainer_of(bert(), SENTENCES, tmp_path)
    callback = TrainerCallback(trainer, embed=True, every_n_steps=3, points=12)
    trainer.add_callback(callback)
    trainer.train()
    model = trainer.model.eval()
    tracker = callback.tracker
    ids, mask = tracker.X[..., 0], tracker.X[..., 1]
    assert int((mask == 0).sum()) > 0

    def by_hand(mask: Tensor) -> float:
        total = 0.0
        for i in range(len(ids)):
            x = model.get_input_embeddings()(ids[i : i + 1]).detach()
            J = torch.autograd.functional.jacobian(
                lambda x, i=i: model(inputs_embeds=x, attention_mask=mask[i : i + 1]).logits, x
            )
            total += float(J.double().square().sum())
        return total / len(ids)

    assert tracker.history["gc"][-1].value == pytest.approx(by_hand(mask), rel=1e-4)
    assert by_hand(torch.ones_like(mask)) != pytest.approx(by_hand(mask), rel=1e-4), "the mask must matter here"
    with torch.no_grad():
        right = model(input_ids=ids, attention_mask=mask).logits.argmax(1) == tracker.y
    assert tracker.history["accuracy"][-1].value == pytest.approx(float(right.double().mean()))


def test_trainer_resumes_the_history(tmp_path: Path) -> None:
    def run(folder: Path, steps: int, resume: bool = False) -> tuple[Trainer, Any]:
        trainer = trainer_of(
            plain(), PICTURES, folder, steps=steps, save_strategy="steps", save_steps=4, lr_scheduler_type="constant"
        )
        callback = TrainerCallback(trainer, every_n_steps=3, points=16)
        trainer.add_callback(callback)
        trainer.train(resume_from_checkpoint=resume or None)
        return trainer, callback

    _, whole = run(tmp_path / "whole", 8)
    run(tmp_path / "parts", 4)
    trainer, again = run(tmp_path / "parts", 8, resume=True)
    assert whole.tracker.steps == [0, 3, 6, 8]
    assert again.tracker.steps == [0, 3, 4, 6, 8]  # the first part measured its end
    values = dict(zip(again.tracker.steps, again.tracker.history["gc"], strict=True))
    assert [values[step] for step in whole.tracker.steps] == pytest.approx(whole.tracker.history["gc"])
    logged = [row["step"] for row in trainer.state.log_history if "complexity/gc" in row]
    assert logged == again.tracker.steps
    state = json.loads((tmp_path / "parts" / "checkpoint-8" / "trainer_state.json").read_text())
    assert all(math.isfinite(row["complexity/gc"]) for row in state["log_history"] if "complexity/gc" in row)


def test_trainer_bad_input(tmp_path: Path) -> None:
    trainer = trainer_of(bert(), SENTENCES, tmp_path)
    with pytest.raises(NetgrainError, match="expected the Trainer first, found Tensor"):
        TrainerCallback(IMAGES, CLASSES)
    with pytest.raises(NetgrainError, match="labels y were given without their inputs"):
        TrainerCallback(trainer, y=CLASSES)
    trainer.add_callback(TrainerCallback(trainer))
    with pytest.raises(NetgrainError, match=r"inputs 'input_ids' are torch.int64 .* pass embed=True"):
        trainer.train()
    model, args = Plain(), None
    begin = {"model": model, "train_dataloader": DataLoader(Rows(x=TOKENS, labels=CLASSES), batch_size=4)}
    with pytest.raises(NetgrainError, match=r"get_input_embeddings\(\) of Plain gives none"):
        TrainerCallback(trainer, embed=True).on_train_begin(args, trainer.state, None, **begin)
    with pytest.raises(NetgrainError, match="Plain does not say what its input is called"):
        TrainerCallback(trainer, IMAGES).on_train_begin(args, trainer.state, None, **begin)
    with pytest.raises(NetgrainError, match="the training data are a stream"):
        TrainerCallback(trainer).on_train_begin(args, trainer.state, None, model=model, train_dataloader=[1, 2])
    with pytest.raises(NetgrainError, match="embed=True expects token numbers"):
        TrainerCallback(trainer, {"input_ids": IMAGES[:, 0, 0]}, embed=True).on_train_begin(
            args, trainer.state, None, model=bert()
        )


# --- both -------------------------------------------------------------------------------------------------------------


def test_samples_do_not_move_the_loader_or_the_generators() -> None:
    class Augmented(TensorDataset):
        def __getitem__(self, i: int) -> Any:
            x, y = super().__getitem__(i)
            return x + torch.rand(1), y

    generator = torch.Generator().manual_seed(0)
    data = DataLoader(Augmented(X, Y), batch_size=8, shuffle=True, generator=generator)
    before = torch.get_rng_state(), generator.get_state()
    one, two = random_batch(data, 5, 0), random_batch(data, 5, 0)
    assert torch.equal(one[0], two[0])
    assert len(one[0]) == 5
    assert not torch.equal(one[0], random_batch(data, 5, 1)[0])
    assert torch.equal(before[0], torch.get_rng_state())
    assert torch.equal(before[1], generator.get_state())
    assert len(random_batch(data, None, 0)[0]) == 40


@pytest.mark.parametrize(
    ("module", "blocked", "sentence"),
    [
        (
            "lightning",
            ["lightning", "pytorch_lightning"],
            "Lightning is not installed; .*pip install -e '.\\[lightning\\]'",
        ),
        ("transformers", ["transformers"], "transformers is not installed; .*pip install -e '.\\[transformers\\]'"),
    ],
)
def test_missing_extra_is_one_sentence(
    module: str, blocked: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"netgrain.complexity.{module}_callback"
    for other in [m for m in sys.modules if m.split(".")[0] in blocked]:
        monkeypatch.delitem(sys.modules, other)
    for other in blocked:
        monkeypatch.setitem(sys.modules, other, None)  # what an import then finds is nothing
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=sentence) as caught:
        importlib.import_module(name)
    assert isinstance(caught.value, NetgrainError)


def test_importing_netgrain_imports_no_framework() -> None:
    code = (
        "import sys, netgrain, netgrain.complexity, netgrain.complexity.tracker, netgrain.complexity.callbacks; "
        "print([m for m in ('lightning', 'pytorch_lightning', 'transformers', 'tensorboard') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_page_on_tracking_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and not with the other pages, because of Lightning's warnings."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "tracking.md").read_text()
    session: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "docs/tracking.md", "exec"), session)
    assert session["tracker"].steps == [0, 50, 100, 150, 200]
    assert scalars(tmp_path / "runs" / "digits", "complexity/gc").keys() == {0, 50, 100, 150, 200}
    assert scalars(tmp_path / "runs" / "lightning", "complexity/gc").keys() == {0, 20, 40}
    assert scalars(tmp_path / "runs" / "trainer", "train/complexity/gc").keys() == {0, 20, 40}
