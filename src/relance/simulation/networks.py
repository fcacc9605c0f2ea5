"""A small language model and its optimizer: letters in, the next letter out, some hundred weights.

Plain floating point in a fixed order, so that the same weights and samples give the same bits on every rank and in
every attempt.
"""

from __future__ import annotations

import hashlib
import math
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from relance.simulation.corpora import ALPHABET, CONTEXT, Sample

_LETTERS = len(ALPHABET)
_WIDTH = 4
"""Numbers per letter in the embedding."""
_HIDDEN = 16
_INPUT = CONTEXT * _WIDTH
_W1 = _LETTERS * _WIDTH
_B1 = _W1 + _INPUT * _HIDDEN
_W2 = _B1 + _HIDDEN
_B2 = _W2 + _HIDDEN * _LETTERS
SIZE = _B2 + _LETTERS
"""How many weights there are."""

_BETA1 = 0.9
_BETA2 = 0.99
_EPSILON = 1e-8
_CLIP_NORM = 1.0


def first_weights(seed: int) -> array[float]:
    """Weights to start from."""
    order = random.Random(f"weights/{seed}")
    return array("d", [order.gauss(0.0, 0.3) for _ in range(SIZE)])


def checksum(weights: array[float]) -> bytes:
    """Eight bytes that tell two sets of weights apart, to the last bit."""
    return hashlib.blake2b(weights.tobytes(), digest_size=8).digest()


def loss_and_gradient(weights: Sequence[float], samples: Sequence[Sample]) -> tuple[float, array[float]]:
    """Sums over the samples of the loss (in nats) and of its gradient."""
    total = 0.0
    gradient = array("d", bytes(8 * SIZE))
    for letters, target in samples:
        inputs = [weights[letter * _WIDTH + k] for letter in letters for k in range(_WIDTH)]
        hidden, chances = _forward(weights, inputs)
        total -= math.log(max(chances[target], 1e-300))
        chances[target] -= 1.0
        back = [0.0] * _HIDDEN
        for j, h in enumerate(hidden):
            row = _W2 + j * _LETTERS
            summed = 0.0
            for k, error in enumerate(chances):
                gradient[row + k] += h * error
                summed += weights[row + k] * error
            back[j] = summed * (1.0 - h * h)
        for k, error in enumerate(chances):
            gradient[_B2 + k] += error
        _to_inputs(weights, gradient, letters, inputs, back)
    return total, gradient


def mean_loss(weights: Sequence[float], samples: Sequence[Sample]) -> float:
    """The mean loss over the samples."""
    total = 0.0
    for letters, target in samples:
        inputs = [weights[letter * _WIDTH + k] for letter in letters for k in range(_WIDTH)]
        total -= math.log(max(_forward(weights, inputs)[1][target], 1e-300))
    return total / len(samples)


@dataclass(slots=True, kw_only=True)
class Adam:
    """An optimizer with its state: first and second moments, and the number of steps made."""

    steps: int = 0
    first: array[float] = field(default_factory=lambda: array("d", bytes(8 * SIZE)))
    second: array[float] = field(default_factory=lambda: array("d", bytes(8 * SIZE)))

    def step(self, weights: array[float], gradient: Sequence[float], learning_rate: float) -> float:
        """Change the weights by one step; gives the norm of the gradient before it was clipped."""
        norm = math.sqrt(math.fsum(each * each for each in gradient))
        scale = min(1.0, _CLIP_NORM / norm) if norm > 0.0 else 1.0
        self.steps += 1
        one = 1.0 - _BETA1**self.steps
        two = 1.0 - _BETA2**self.steps
        first, second = self.first, self.second
        for i, raw in enumerate(gradient):
            slope = raw * scale
            first[i] = _BETA1 * first[i] + (1.0 - _BETA1) * slope
            second[i] = _BETA2 * second[i] + (1.0 - _BETA2) * slope * slope
            weights[i] -= learning_rate * (first[i] / one) / (math.sqrt(second[i] / two) + _EPSILON)
        return norm


def learning_rate(step: int, steps: int) -> float:
    """Ten steps of warm-up, then half a cosine down to a tenth."""
    highest, warm_up = 2.0e-2, 10
    if step <= warm_up:
        return highest * step / warm_up
    done = min((step - warm_up) / max(steps - warm_up, 1), 1.0)
    return highest * (0.1 + 0.45 * (1.0 + math.cos(math.pi * done)))


def _forward(weights: Sequence[float], inputs: Sequence[float]) -> tuple[list[float], list[float]]:
    """The hidden values, and the chance of each letter."""
    hidden = []
    for j in range(_HIDDEN):
        value = weights[_B1 + j]
        for i, x in enumerate(inputs):
            value += x * weights[_W1 + i * _HIDDEN + j]
        hidden.append(math.tanh(value))
    scores = list(weights[_B2 : _B2 + _LETTERS])
    for j, h in enumerate(hidden):
        row = weights[_W2 + j * _LETTERS : _W2 + (j + 1) * _LETTERS]
        scores = [score + h * each for score, each in zip(scores, row, strict=True)]
    highest = max(scores)
    chances = [math.exp(score - highest) for score in scores]
    total = math.fsum(chances)
    return hidden, [each / total for each in chances]


def _to_inputs(
    weights: Sequence[float],
    gradient: array[float],
    letters: Sequence[int],
    inputs: Sequence[float],
    back: Sequence[float],
) -> None:
    """Add the part of the gradient below the hidden layer."""
    for j, error in enumerate(back):
        gradient[_B1 + j] += error
    for i, x in enumerate(inputs):
        row = _W1 + i * _HIDDEN
        summed = 0.0
        for j, error in enumerate(back):
            gradient[row + j] += x * error
            summed += weights[row + j] * error
        gradient[letters[i // _WIDTH] * _WIDTH + i % _WIDTH] += summed
