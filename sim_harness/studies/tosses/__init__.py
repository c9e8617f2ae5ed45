"""Measured tosses of a block as a judge of engines: `idyn compare cube-tosses`.

Stages, each of which needs those before it only:

    data → plan (split, loss, bounds, budget) → flight (scale, centre of mass) → forecast by an engine → fit → judge → study
"""
