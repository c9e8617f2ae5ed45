"""Soles: the contact places of a link."""

from collections.abc import Sequence

from idyn.model.robot import Robot


def with_whole_soles(robot: Robot, touching: Sequence[str]) -> tuple[str, ...]:
    """Return the contacts that touch, with all other contact places of the same links."""
    places = dict(zip(robot.spheres.keys, robot.description.contact, strict=True))
    links = {places[key].frame for key in touching if key in places}
    soles = tuple(key for key, place in places.items() if place.frame in links)
    return soles + tuple(key for key in touching if key not in places)
