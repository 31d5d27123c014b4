"""Pictures: time plots, checks, convergence, and a moving scene in the browser.

`pip install '.[viz]'` in the clone; it is loaded when it is first used.
"""

try:
    import matplotlib  # noqa: F401
    import viser  # noqa: F401
except ImportError as error:
    raise ImportError(
        "lie_jax.viz draws with matplotlib and viser, which are not installed: "
        "in the clone of lie_jax run pip install '.[viz]'."
    ) from error

from lie_jax.io.visuals import Mesh as Mesh
from lie_jax.viz.comparisons import convergence as convergence
from lie_jax.viz.comparisons import work_precision as work_precision
from lie_jax.viz.deformed import Deformed as Deformed
from lie_jax.viz.energies import energy as energy
from lie_jax.viz.joint_loads import reactions as reactions
from lie_jax.viz.plots import drift as drift
from lie_jax.viz.plots import motion as motion
from lie_jax.viz.plots import paths as paths
from lie_jax.viz.recording import video as video
from lie_jax.viz.scene import export as export
from lie_jax.viz.scene import show as show
from lie_jax.viz.style import COLORS as COLORS
from lie_jax.viz.style import STYLE as STYLE
