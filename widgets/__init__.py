"""Interactive figures, one file each: `widgets.counter.counter()` in a cell shows one, with a kernel or without.

Each is a function in NAME.py that returns the widget, and a script NAME.js that draws it in the browser. In a live
notebook it is an ipywidgets widget (by anywidget): its values can be read and set in Python. In the built book the same
script runs with no kernel. `base` makes widgets, `shared.js` and `shared.css` hold what all of them use.
"""

__all__ = []
