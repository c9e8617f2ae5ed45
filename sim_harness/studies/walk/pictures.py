"""Pictures of the study of a walking person."""

from idyn.explain.explanation import centre_of_pressure
from sim_harness.compare.study import Figures
from sim_harness.report.plots import Line, Plot, picture, stacked
from sim_harness.studies.walk.measure import Found
from sim_harness.studies.walk.person import Person
from sim_harness.studies.walk.scores import COMPONENTS
from sim_harness.studies.walk.tables import opensim_moment


def forces_picture(person: Person, figures: Figures) -> bytes:
    """Draw the forces of each foot over time: measured, explained, predicted."""
    found: Found = figures["forces"]["walk"]
    time = person.motion.time
    panels: dict[str, dict[str, Line]] = {}
    for component, i in COMPONENTS.items():
        lines: dict[str, Line] = {}
        for k, foot in enumerate(found.explained.feet):
            colour = f"C{k}"
            lines[f"{foot}, plate"] = (time, person.wrenches[k, :, i], f"{colour}-")
            lines[f"{foot}, explained"] = (time, found.explained.wrenches[k, :, i], f"{colour}--")
            lines[f"{foot}, predicted"] = (time, found.predicted.wrenches[k, :, i], f"{colour}:")
        panels[f"{component} [N]"] = lines
    return stacked(panels)


def pressure_picture(person: Person, figures: Figures) -> bytes:
    """Draw centre of pressure and free moment of each foot over time."""
    found: Found = figures["forces"]["walk"]
    time = person.motion.time
    panels: dict[str, dict[str, Line]] = {"CoP, fore-aft [m]": {}, "CoP, mediolateral [m]": {}, "free moment [N·m]": {}}
    for k, foot in enumerate(found.explained.feet):
        for name, style, (centre, free) in (
            ("plate", "-", centre_of_pressure(person.wrenches[k], person.surface)),
            ("explained", "--", found.explained.pressure(foot)),
        ):
            for panel, values in zip(panels, (centre[:, 0], centre[:, 2], free), strict=True):
                panels[panel][f"{foot}, {name}"] = (time, values, f"C{k}{style}")
    return stacked(panels)


def moments_picture(person: Person, figures: Figures) -> bytes:
    """Draw the moments of the sagittal joints: OpenSim's, and ours with measured, explained and predicted forces."""
    found: Found = figures["forces"]["walk"]
    time = person.motion.time
    plots: list[Plot] = []
    names = [name for name in found.plates.names if name.startswith(("hip_flexion", "knee_angle", "ankle_angle"))]
    for name in names:
        k = found.plates.names.index(name)
        wanted = opensim_moment(person, name)
        lines: dict[str, Line] = {} if wanted is None else {"OpenSim": (time, wanted, "k-")}
        lines["measured forces"] = (time, found.plates.moments[:, k], "C2--")
        lines["explained"] = (time, found.explained.moments[:, k], "C0--")
        lines["predicted"] = (time, found.predicted.moments[:, k], "C1:")
        plots.append(Plot(lines=lines, legend=not plots, axes={"title": f"{name} [N·m]"}))
    return picture(plots or [Plot()], across=min(3, max(1, len(plots))), size=(10, 6))
