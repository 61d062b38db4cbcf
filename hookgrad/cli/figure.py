"""The picture of ``hookgrad demo``: what the hooks saw while the network learned."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from hookgrad.cli import digits

# Okabe and Ito's colours, which people who are colour-blind can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
INK, QUIET = "#222222", "#6b6b6b"
STYLE = {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "font.size": 10,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": QUIET,
    "xtick.labelsize": 9,
    "ytick.color": QUIET,
    "ytick.labelsize": 9,
}


def draw(path, title, history, layers, held_out, probabilities):
    """Draw a training's gradients, its progress and what it finds hard, and write them as PNG.

    Parameters
    ----------
    path : pathlib.Path
    title : str
    history : hookgrad.cli.demo.History
    layers : list of str
        Names, from the input on.
    held_out : hookgrad.cli.digits.Digits
    probabilities : ndarray
        How probable the network finds each digit in each held-out image.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the same picture whatever the user's own style
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(13, 9), dpi=120, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)
        figure.suptitle(title, fontsize=14.5, fontweight="bold", x=0.012, ha="left")
        upper, lower = figure.subfigures(2, 1, height_ratios=[1, 1.1])
        left, middle, right = lower.subfigures(1, 3, width_ratios=[1.25, 1, 1])
        draw_norms(upper.subplots(), history, layers)
        draw_spreads(left.subplots(len(layers), 1, sharex=True), history, layers)
        draw_progress(middle.subplots(2, 1, sharex=True), history)
        draw_hardest(right.subplots(3, 3), held_out, probabilities)
        figure.savefig(path, format="png", facecolor="white")


def smooth(values, window):
    """A running geometric mean, over less where the series begins and ends."""
    ones = np.ones(min(window, len(values)))
    weights = np.convolve(np.ones(len(values)), ones, "same")
    return np.exp(np.convolve(np.log(values), ones, "same") / weights)


def epochs_of(history):
    """The time of each step, in epochs."""
    return np.arange(1, len(history.losses) + 1) / history.steps


def log_scale(axes):
    """A logarithmic y-axis whose labels read 0.1 and not a power of ten; between them some more where it is short."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_formatter("{x:g}")
    if high < 30 * low:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter("{x:g}")
    else:
        axes.yaxis.set_minor_formatter(NullFormatter())


def draw_norms(axes, history, layers):
    """The norm of each layer's gradient over time: every step, and smoothed over an epoch."""
    epochs = epochs_of(history)
    window = min(history.steps, len(epochs) // 8)
    for layer, colour in zip(layers, COLOURS, strict=True):
        norms = np.maximum(history.records[f"{layer}.weight"].norms, 1e-12)
        axes.plot(epochs, norms, color=colour, alpha=0.22, linewidth=0.6, zorder=2)
        axes.plot(epochs, smooth(norms, window), color=colour, linewidth=2.2, zorder=3, label=layer)
    axes.axhline(history.clip, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), zorder=4, label="clip limit")
    axes.set(title="Norm of each layer's weight gradient, before clipping", xlabel="epoch", ylabel="gradient norm")
    axes.set(xlim=(0, history.epochs))
    log_scale(axes)
    axes.grid(True)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=len(layers) + 1, frameon=False, borderaxespad=0.1, fontsize=9.5
    )


def draw_spreads(all_axes, history, layers):
    """How large the single values of each layer's gradient are, in the first epoch and the last."""
    for axes, layer, colour in zip(all_axes, layers, COLOURS, strict=True):
        record = history.records[f"{layer}.weight"]
        sizes = 10 ** ((record.EXPONENTS[1:] + record.EXPONENTS[:-1]) / 2)
        first = np.mean(record.spreads[: history.steps], axis=0)
        last = np.mean(record.spreads[-history.steps :], axis=0)
        axes.fill_between(sizes, last, color=colour, alpha=0.55, linewidth=0)
        axes.plot(sizes, first, color=INK, linewidth=1.2)
        axes.set(xscale="log", xlim=(1e-8, 1), ylim=(0, 1.2 * max(first[1:].max(), last[1:].max())))
        axes.grid(True, axis="x")
        axes.tick_params(left=False, labelleft=False)
        axes.spines["left"].set_visible(False)
        axes.text(0.01, 0.95, layer, color=colour, fontweight="bold", transform=axes.transAxes, va="top")
        zero = f"exactly 0: {1 - first.sum():.0%}, then {1 - last.sum():.0%}"
        axes.text(0.25, 0.94, zero, color=QUIET, fontsize=9, transform=axes.transAxes, va="top")
    all_axes[0].set_title("Distribution of the weight gradients' values")
    all_axes[-1].set_xlabel("absolute value (line: first epoch, area: last epoch)")


def draw_progress(all_axes, history):
    """The loss by step and the held-out accuracy by epoch."""
    loss, accuracy = all_axes
    losses = np.maximum(history.losses, 1e-12)
    window = min(history.steps, len(losses) // 8)
    loss.plot(epochs_of(history), losses, color=QUIET, alpha=0.35, linewidth=0.6)
    loss.plot(epochs_of(history), smooth(losses, window), color=INK, linewidth=2)
    loss.set(title="Training loss", ylabel="cross-entropy")
    log_scale(loss)
    percent = 100 * np.array(history.accuracies)
    accuracy.plot(np.arange(1, history.epochs + 1), percent, color=INK, linewidth=2, marker="o", markersize=3)
    accuracy.set(xlabel="epoch", ylabel="% right", xlim=(0, history.epochs * 1.02))
    accuracy.set_title(f"Held-out accuracy: {percent[-1]:.1f}%")
    for axes in all_axes:
        axes.grid(True)


def draw_hardest(grid, held_out, probabilities):
    """The images whose digit the network finds least probable: those it misreads, and those it nearly does."""
    predictions = probabilities.argmax(axis=1)
    certainty = probabilities[np.arange(len(predictions)), held_out.labels]
    for axes, k in zip(grid.flat, np.argsort(certainty, kind="stable"), strict=False):
        axes.imshow(held_out.images[k].reshape(digits.SIDE, digits.SIDE), cmap="gray_r", vmin=0, vmax=1)
        axes.set_axis_off()
        if predictions[k] != held_out.labels[k]:
            words, colour = f"{held_out.labels[k]}, read as {predictions[k]}", COLOURS[1]
        else:
            words, colour = f"{held_out.labels[k]}, {certainty[k]:.0%} sure", INK
        axes.set_title(words, color=colour, fontsize=9, fontweight="normal", loc="center")
    misread = np.sum(predictions != held_out.labels)
    grid[0, 0].figure.suptitle(f"Hardest images ({misread} misread)", fontsize=11.5, fontweight="bold")
