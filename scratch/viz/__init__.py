"""Every plot of the course; each function returns (fig, ax) and draws from arrays it is given.

Matplotlib is imported when the first of them is used: in a browser it is 10 MB that most pages' cells do without.
"""

from importlib import import_module
from importlib.util import find_spec

_PLOTS = {
    "cost": "decode_time shares straight_lines",
    "devices": "block_cuts pipeline_schedule sent_by_ranks",
    "efficient": "expert_loads memory_by_length patch_attention rounding_errors tile_map",
    "generating": "decoding_row page_tables sampling_panels work_growth",
    "gradients": "depth_panels errors_by_name gates gradient_norms gradients_by_depth",
    "inside": "knockouts lens_grid",
    "maps": "attention_maps sink_share token_bars",
    "pitfalls": "caught two_losses wrong_maps",
    "stream": "ablations branch_norms by_depth changed_rows stream_norms",
    "style": "placeholder",
    "training": "gradient_lengths rates short_runs stream_over_training training_losses valley",
}
_HOME = {name: module for module, names in _PLOTS.items() for name in names.split()}
_waiting = False  # whether the look was asked for before Matplotlib was there

__all__ = sorted([*_HOME, "use_style"])


def use_style():
    """Set the course's look for Matplotlib, and crisp SVG figures where IPython is running."""
    global _waiting
    _waiting = find_spec("matplotlib") is None
    if not _waiting:
        import_module("scratch.viz.style").use_style()


def catch_up():
    """Set the look now, if it was asked for before Matplotlib was there."""
    if _waiting:
        use_style()


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    catch_up()
    plot = globals()[name] = getattr(import_module(f"scratch.viz.{_HOME[name]}"), name)
    return plot


def __dir__():
    return __all__
