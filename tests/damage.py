"""Damaged contents of files."""

import numpy as np


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The content cut short, with a bit flipped, or with a stretch zeroed or cut out."""
    start, length = int(rng.integers(len(content))), int(2 ** rng.uniform(0, 10))
    match rng.integers(4):
        case 0:
            return content[:start]
        case 1:
            flipped = bytes([content[start] ^ 1 << int(rng.integers(8))])
            return content[:start] + flipped + content[start + 1 :]
        case 2:
            gap = content[start : start + length]
            return content[:start] + bytes(len(gap)) + content[start + length :]
        case _:
            return content[:start] + content[start + length :]
