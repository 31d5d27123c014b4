"""Pages of the documentation that are notebooks, with the outputs that their files have."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from traitlets.config import Config

NOTEBOOKS = Path(__file__).parent / "notebooks"
# Tables of xarray need scripts and styles of Jupyter: their text has the same content.
_CONFIG = Config(NbConvertBase={"display_data_priority": ["image/png", "text/plain"]})


def on_files(files: Files, *, config: MkDocsConfig, **_: Any) -> Files:
    """Called by mkdocs once it has listed the pages."""
    # Lines that one cell has printed stand in one block.
    exporter = MarkdownExporter(config=_CONFIG, preprocessors=[CoalesceStreamsPreprocessor])
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        places = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
        text, resources = exporter.from_filename(str(path), resources=places)
        # Links of a notebook start in its folder of the repository.
        pages = {f"{path.stem}.md": text.replace("](../docs/", "](../"), **resources["outputs"]}
        for name, content in pages.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files
