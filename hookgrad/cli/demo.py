"""``hookgrad demo``: a small network learns handwritten digits, with hooks at work.

What is worth copying comes first: the layers, the three hooks, and a training loop in which ``backward()`` does all.
"""

import math
import tempfile
import time
from dataclasses import dataclass

import numpy as np

import hookgrad as hg
import hookgrad.nn.functional as F
from hookgrad.cli import digits, extras
from hookgrad.cli.errors import CommandError

BATCH = 32
RATE = 0.05  # the learning rate at the start; it falls to zero along a cosine
MOMENTUM = 0.9
CLIP = 1.0  # the longest gradient of a parameter that may pass

# The network ----------------------------------------------------------------------------------------------------------


class Dense:
    """x @ weight + bias."""

    def __init__(self, name, n_in, n_out, rng):
        self.name = name
        values = rng.normal(0, math.sqrt(2 / n_in), (n_in, n_out))
        self.weight = hg.tensor(values, dtype=np.float32, requires_grad=True, name=f"{name}.weight")
        self.bias = hg.zeros(n_out, requires_grad=True, name=f"{name}.bias")

    def __call__(self, x):
        return x @ self.weight + self.bias


class Convolution(Dense):
    """Filters of 3 x 3 pixels: one dense layer for all the 6 x 6 patches of an image."""

    START = np.arange(6)[:, None] * digits.SIDE + np.arange(6)  # of a patch, in an image of 64 pixels
    WITHIN = np.arange(3)[:, None] * digits.SIDE + np.arange(3)
    PATCHES = START.reshape(36, 1) + WITHIN.reshape(1, 9)

    def __init__(self, name, n_filters, rng):
        super().__init__(name, 9, n_filters, rng)

    def __call__(self, images):
        patches = images[:, self.PATCHES].reshape(-1, 9)
        return super().__call__(patches).reshape(len(images), -1)


class Network:
    """A convolution and three dense layers, with relu between."""

    def __init__(self, rng):
        self.layers = [
            Convolution("convolution", 32, rng),
            Dense("hidden 1", 36 * 32, 128, rng),
            Dense("hidden 2", 128, 64, rng),
            Dense("output", 64, digits.CLASSES, rng),
        ]

    def __call__(self, images):
        first, *rest = self.layers
        x = first(images)
        for layer in rest:
            x = layer(F.relu(x))
        return x

    def parameters(self):
        return [parameter for layer in self.layers for parameter in (layer.weight, layer.bias)]


# The hooks ------------------------------------------------------------------------------------------------------------


def norm(tensor):
    return math.sqrt((tensor * tensor).sum().item())


class Record:
    """A gradient hook that looks: it returns None, which leaves the gradient as it is.

    It notes every gradient's norm, and in some of the steps how many of its values are how large.
    """

    EXPONENTS = np.linspace(-9, 0, 91)  # of ten: the bins for the sizes of values

    def __init__(self, detailed_steps):
        self.detailed_steps = detailed_steps
        self.norms = []
        self.spreads = []  # shares of all values, by bin; what is missing in their sum is exactly zero

    def __call__(self, grad):
        if len(self.norms) in self.detailed_steps:
            values = np.abs(grad.numpy())
            exponents = np.log10(values[values > 0]).clip(self.EXPONENTS[0], self.EXPONENTS[-1])
            self.spreads.append(np.histogram(exponents, self.EXPONENTS)[0] / values.size)
        self.norms.append(norm(grad))


class Clip:
    """A gradient hook that edits: it returns a gradient no longer than `limit`."""

    def __init__(self, limit):
        self.limit = limit

    def __call__(self, grad):
        length = norm(grad)
        return grad * (self.limit / length) if length > self.limit else None


class Step:
    """A post-accumulate hook that learns: momentum's step, as soon as backward() knows the parameter's gradient."""

    def __init__(self, rates):
        self.rates = iter(rates)
        self.velocity = 0.0

    def __call__(self, parameter):
        self.velocity = MOMENTUM * self.velocity + parameter.grad
        parameter -= next(self.rates) * self.velocity
        parameter.clear_grad()


# Training -------------------------------------------------------------------------------------------------------------


@dataclass
class History:
    """What there is to see after training."""

    epochs: int
    steps: int  # in an epoch
    clip: float
    records: dict  # Record by name of parameter
    losses: list  # by step
    accuracies: list  # on the held-out images, by epoch


def train(network, training, held_out, epochs, rng, progress):
    """Train a network on digits, and keep what the hooks see; `progress` is a bar that counts steps."""
    steps = len(training.labels) // BATCH
    rates = [RATE * (1 + math.cos(math.pi * t / (epochs * steps))) / 2 for t in range(epochs * steps)]
    history = History(epochs, steps, CLIP, records={}, losses=[], accuracies=[])

    first_and_last_epoch = {*range(steps), *range((epochs - 1) * steps, epochs * steps)}
    for parameter in network.parameters():
        record = history.records[parameter.name] = Record(first_and_last_epoch)
        parameter.register_hook(record)
        parameter.register_hook(Clip(CLIP))
        parameter.register_post_accumulate_grad_hook(Step(rates))

    for _ in range(epochs):
        order = rng.permutation(len(training.labels))
        for batch in order[: steps * BATCH].reshape(steps, BATCH):
            images = hg.from_numpy(digits.shifted(training.images[batch], rng))
            loss = F.cross_entropy(network(images), training.labels[batch])
            loss.backward()  # records, clips and steps, one parameter after the other
            history.losses.append(loss.item())
            progress.update()
        history.accuracies.append(np.mean(predict(network, held_out).argmax(axis=1) == held_out.labels))
        progress.set_postfix(loss=f"{loss.item():.3f}", accuracy=f"{history.accuracies[-1]:.1%}", refresh=False)
    return history


@hg.no_grad
def predict(network, data):
    """How probable a network finds each digit in each image, (n, 10)."""
    return F.softmax(network(hg.from_numpy(data.images))).numpy()


# The command ----------------------------------------------------------------------------------------------------------


def run(epochs, seed, out):
    """Train, report and draw.

    Parameters
    ----------
    epochs, seed : int
    out : pathlib.Path
        The folder to write to.

    Raises
    ------
    CommandError
        An extra is not installed, or the folder cannot be written to; before any work is done.
    """
    start = time.perf_counter()
    extras.require(extras.DEMO, "demo")
    make_folder(out)

    from threadpoolctl import threadpool_limits
    from tqdm import tqdm

    from hookgrad.cli import figure

    rng = np.random.default_rng(seed)
    training, held_out = digits.load(rng)
    network = Network(rng)
    n_values = sum(parameter.size for parameter in network.parameters())
    print(
        f"hookgrad {hg.__version__}: a network of {n_values:,} parameters learns {len(training.labels):,} handwritten "
        f"digits, {epochs} {'epoch' if epochs == 1 else 'epochs'}, seed {seed}",
        flush=True,
    )

    # Products of this size are faster on one core, and much faster where other programs use the rest.
    with threadpool_limits(1, user_api="blas"):
        begin = time.perf_counter()
        with tqdm(total=epochs * (len(training.labels) // BATCH), desc="training", unit="step") as progress:
            history = train(network, training, held_out, epochs, rng, progress)
        seconds = time.perf_counter() - begin
        probabilities = predict(network, held_out)

    n = len(held_out.labels)
    right = int(np.sum(probabilities.argmax(axis=1) == held_out.labels))
    path = out / "gradient_flow.png"
    title = (
        f"Gradient flow through {len(network.layers)} layers: {epochs} {'epoch' if epochs == 1 else 'epochs'} of "
        f"handwritten digits, {right / n:.1%} of {n} held-out images right"
    )
    try:
        figure.draw(path, title, history, [layer.name for layer in network.layers], held_out, probabilities)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None

    print()
    print(f"held-out accuracy   {right / n:.2%} ({right} of {n} images)")
    print(f"time                {seconds:.1f} s training, {time.perf_counter() - start:.1f} s in all")
    print()
    print(table(history))
    print()
    print(f"figure              {path}")


def make_folder(out):
    """Make a folder if it is not there, and see that files can be made in it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except FileExistsError:
        raise CommandError(f"argument --out: {out} is a file, expected a folder") from None
    except OSError as error:
        raise CommandError(f"argument --out: cannot write to the folder {out}: {error.strerror}") from None


def table(history):
    """The gradient norms of each layer's parameters, as text."""
    lines = [
        f"gradient norms by layer, before clipping at {history.clip:g}",
        "",
        f"{'layer':<13}{'parameter':<10}{'first epoch':>13}{'last epoch':>12}{'max':>8}{'clipped':>10}",
    ]
    before = None
    for name, record in history.records.items():
        layer, parameter = name.split(".")
        norms = np.array(record.norms)
        lines.append(
            f"{layer if layer != before else '':<13}{parameter:<10}{norms[: history.steps].mean():>13.3f}"
            f"{norms[-history.steps :].mean():>12.3f}{norms.max():>8.2f}{np.mean(norms > history.clip):>10.1%}"
        )
        before = layer
    return "\n".join(lines)
