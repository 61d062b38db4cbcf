"""scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, by 43 people."""

from typing import NamedTuple

import numpy as np

SIDE = 8
CLASSES = 10
HELD_OUT = 5  # one image in five


class Digits(NamedTuple):
    """Images (n, 64) in float32 from 0 to 1, and the digits (n,) that they show."""

    images: np.ndarray
    labels: np.ndarray


def load(rng):
    """The digits in two parts, to train on and to test with; each digit is in both in the same proportion."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # by digit, and at random within a digit
    held_out = np.zeros(len(labels), bool)
    held_out[order[::HELD_OUT]] = True
    return Digits(images[~held_out], labels[~held_out]), Digits(images[held_out], labels[held_out])


def shifted(images, rng):
    """The images, each moved by up to one pixel up or down and left or right: as many new ways to write a digit."""
    n = len(images)
    padded = np.pad(images.reshape(n, SIDE, SIDE), [(0, 0), (1, 1), (1, 1)])
    rows, columns = rng.integers(0, 3, (2, n, 1)) + np.arange(SIDE)
    return padded[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]].reshape(n, -1)
