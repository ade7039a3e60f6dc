"""The figures of a report: cells in, drawings with their captions out; none where there is nothing to show.

Everywhere `frame` is finished cells, as `place_cells` gives them, and `styles` says how each label is drawn.
"""
