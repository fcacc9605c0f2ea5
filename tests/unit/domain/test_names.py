from __future__ import annotations

import pytest

from relance.domain.names import words


@pytest.mark.parametrize(
    ("identifier", "said"),
    [
        ("gpu_fell_off_the_bus", "GPU fell off the bus"),
        ("loss_nan", "loss NaN"),
        ("gpu_hw_throttle", "GPU HW throttle"),
    ],
)
def test_names_of_the_code_are_words_with_their_acronyms(identifier: str, said: str) -> None:
    assert words(identifier) == said
