"""Every plot of the course; each function returns (fig, ax) and draws from arrays it is given."""

from scratch.viz.cost import decode_time, shares, straight_lines
from scratch.viz.devices import block_cuts, pipeline_schedule, sent_by_ranks
from scratch.viz.efficient import expert_loads, memory_by_length, patch_attention, rounding_errors, tile_map
from scratch.viz.generating import decoding_row, page_tables, sampling_panels, work_growth
from scratch.viz.gradients import depth_panels, errors_by_name, gates, gradient_norms, gradients_by_depth
from scratch.viz.inside import knockouts, lens_grid
from scratch.viz.maps import attention_maps, sink_share, token_bars
from scratch.viz.pitfalls import caught, two_losses, wrong_maps
from scratch.viz.stream import ablations, branch_norms, by_depth, changed_rows, stream_norms
from scratch.viz.style import placeholder, use_style
from scratch.viz.training import gradient_lengths, rates, short_runs, stream_over_training, training_losses, valley

__all__ = [
    "ablations",
    "attention_maps",
    "block_cuts",
    "branch_norms",
    "by_depth",
    "caught",
    "changed_rows",
    "decode_time",
    "decoding_row",
    "depth_panels",
    "errors_by_name",
    "expert_loads",
    "gates",
    "gradient_lengths",
    "gradient_norms",
    "gradients_by_depth",
    "knockouts",
    "lens_grid",
    "memory_by_length",
    "page_tables",
    "patch_attention",
    "pipeline_schedule",
    "placeholder",
    "rates",
    "rounding_errors",
    "sampling_panels",
    "sent_by_ranks",
    "shares",
    "short_runs",
    "sink_share",
    "straight_lines",
    "stream_norms",
    "stream_over_training",
    "tile_map",
    "token_bars",
    "training_losses",
    "two_losses",
    "use_style",
    "valley",
    "work_growth",
    "wrong_maps",
]
