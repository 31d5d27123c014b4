"""One precision measured in a process of its own, since JAX's precision belongs to the process."""

import argparse
from pathlib import Path

import jax
import numpy as np

from experiments import _report
from experiments._accuracy import comparison, golden_values


def main() -> None:
    """Measure in the named precision and write the numbers to a file."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("precision", choices=["float32", "float64"])
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", arguments.precision == "float64")
    dtype = {"float32": np.float32, "float64": np.float64}[arguments.precision]
    errors, missing = comparison.measure(dtype)
    results = {
        "golden_eps": golden_values.measure(dtype),
        "relative_errors": errors,
        "not_installed": missing,
    }
    _report.write_json(arguments.file, results, indent=1, ascii=False)


if __name__ == "__main__":
    main()
