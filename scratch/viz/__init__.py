"""Every plot of the course; each function returns (fig, ax) and draws from arrays it is given."""

from scratch.viz.gradients import depth_panels, errors_by_name, gates, gradient_norms, gradients_by_depth
from scratch.viz.maps import attention_maps, sink_share, token_bars
from scratch.viz.stream import ablations, branch_norms, by_depth, changed_rows, stream_norms
from scratch.viz.style import placeholder, use_style

__all__ = [
    "ablations",
    "attention_maps",
    "branch_norms",
    "by_depth",
    "changed_rows",
    "depth_panels",
    "errors_by_name",
    "gates",
    "gradient_norms",
    "gradients_by_depth",
    "placeholder",
    "sink_share",
    "stream_norms",
    "token_bars",
    "use_style",
]
