"""The study of a walking person: `idyn compare human-walk [--data DIR]`."""

from functools import partial
from pathlib import Path

from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.studies.walk import tables
from sim_harness.studies.walk.measure import CHANGES, LAWS, SHARES, Found, find_all, sensitivity, softness_half
from sim_harness.studies.walk.person import MOMENTS, Person, measured_folder, read_person
from sim_harness.studies.walk.pictures import forces_picture, moments_picture, pressure_picture

CREDIT = (
    "The person of the data beside the project comes with OpenSim: Gait2354 by D.G. Thelen, A. Seth, F.C. Anderson and S.L. "
    "Delp, CC BY 3.0. The credits of other data are in their files."
)


def study(data: Path | None = None) -> Study:
    """Return the study. data: folder with the files of a person, None: the measured data beside the project

    Raises ConfigError where the files are missing, ModelError and InputError where they are wrong.
    """
    person = read_person(measured_folder(data))
    return Study(
        "A walking person",
        _lead(person),
        sweeps={
            "forces": Sweep((("walk",),), lambda _: find_all(person)),
            "halves": Sweep((SHARES,), partial(softness_half, person)),
            "changes": Sweep((CHANGES,), lambda change: sensitivity(person, change(person))),
            "laws": Sweep((LAWS,), lambda change: sensitivity(person, change(person))),
        },
        tables=(
            partial(tables.sums_table, person),
            partial(tables.feet_table, person),
            partial(tables.pressure_table, person),
            partial(tables.moments_table, person),
            tables.halves_table,
            partial(tables.sensitivity_table, "changes", "explained"),
            partial(tables.sensitivity_table, "laws", "predicted"),
        ),
        pictures=(
            Picture("forces", "Forces of each foot", partial(forces_picture, person)),
            Picture("pressure", "Centres of pressure and free moments of each foot", partial(pressure_picture, person)),
            Picture("moments", "Moments of the joints of both legs", partial(moments_picture, person)),
        ),
        notes=partial(_notes, person),
    )


def _lead(person: Person) -> str:
    time = person.motion.time
    first, last = person.judged.start, person.judged.stop - 1
    return (
        f"Ground forces from the motion of a person of {person.walker.robot.total_mass:.1f} kg, beside force plates: explained "
        "(all of the motion in) and predicted (joint accelerations in, the base's out). "
        f"Frames {first} to {last} of {len(time)}, {time[first]:.3f} to {time[last]:.3f} s; a foot counts while its plate has "
        "more than 20 N."
    )


def _notes(person: Person, figures: Figures) -> list[str]:
    """Return how the figures are meant, and what was chosen by which frames."""
    found: Found = figures["forces"]["walk"]
    belt = ", ".join(f"{value:.3f}" for value in found.explained.belt)
    (first, on_second), (second, on_first) = tables.chosen(figures)
    return [
        f"From the motion: floor at {found.explained.floor:.4f} m (plates: {person.surface:.4f} m), belt [m/s]: {belt}.",
        f"Predicted, vertical, RMSE by the range of the sum: softness {first}, chosen by the first half, has "
        f"{on_second.second.range:.3f} on the second; {second}, chosen by the second half, has {on_first.first.range:.3f} on "
        "the first.",
        "Chosen with the measured forces of this walker (Gait2354's subject01) in view, on all of its frames: filter 5 Hz of "
        "order 2 (scaled with the cadence), κ 0.5, heights and speeds of points that may carry, fade 2 cm, slip 0.2 m/s, "
        "outline of the soles. Nothing is chosen for other data.",
        "Component x is forward, y up, z to the right, in OpenSim's ground frame. Range: largest minus smallest measured value "
        "in the frames that count; maximum: largest absolute value.",
        CREDIT if person.opensim is not None else f"{CREDIT} {MOMENTS} is missing: there are no moments to compare with.",
    ]
