"""Videos of a run, decoded by FFmpeg: as long as the run, and each frame shows its time."""

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import opened
from fast import every

from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.commands.main import main
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from sim_harness.view.video import HEIGHT, RATE, WIDTH, Video

FRAMES = 18
MIDDLE = (slice(150, 560), slice(420, 860))  # part of the picture between the table and the plots


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trot, recorded until shortly after the time of its last frame."""
    folder = tmp_path_factory.mktemp("run")
    run_in_process(load_plan("trot", (FRAMES - 0.5) / RATE), "coulomb", lambda *_: None).save(folder)
    return folder


def shot(page: Any, time: float) -> Array:
    """What a browser shows of a page at a time, drawn when the tab is idle (h, w, 3)."""
    from PIL import Image  # noqa: PLC0415  (extra)

    page.evaluate(f"show({time})")
    page.wait_for_timeout(500)
    return np.array(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(float)


@pytest.mark.browser
@pytest.mark.parametrize("suffix", ["mp4", "webm"])
def test_the_robot_moves_in_the_video_as_on_the_page(folder: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all frames, the one that is due is the most similar to the page at its time. It walks from 0.3 s on."""
    import av  # noqa: PLC0415  (extra)

    target = folder / f"run.{suffix}"
    assert main(["view", str(folder), "--video", str(target)]) == 0
    assert f"{target}: {FRAMES} frames" in capsys.readouterr().out
    with av.open(str(target)) as video:
        decoded = list(video.decode(video=0))
    assert [round(frame.time * RATE, 3) for frame in decoded] == list(range(FRAMES))
    frames = [frame.to_ndarray(format="rgb24").astype(float) for frame in decoded]
    assert {frame.shape for frame in frames} == {(HEIGHT, WIDTH, 3)}
    assert (np.abs(frames[15] - frames[2])[MIDDLE].max(axis=2) > 30).mean() > 0.005  # as in test_view_in_a_browser
    with opened(folder / "view.html") as (page, _, errors):
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.wait_for_function("typeof run === 'object' && run !== null")
        page.evaluate("play(false)")
        for number in (9, 12, 15):
            expected = shot(page, number / RATE)[MIDDLE]
            apart = [np.abs(frame[MIDDLE] - expected).mean() for frame in frames]
            assert int(np.argmin(apart)) == number
        assert errors == []


def test_another_kind_of_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(folder), "--video", str(folder / "run.gif")]) == 2
    assert "--video: expected a file *.mp4 or *.webm in an existing folder, got " in capsys.readouterr().err
    assert main(["view", str(folder), "--video", str(folder / "no" / "run.mp4")]) == 2
    assert "in an existing folder" in capsys.readouterr().err


@every("package", ["av", "playwright.sync_api", "PIL"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"--video: a video needs the package .* pip install .*\[video\]"):
        Video(folder / "run.mp4")


@pytest.mark.browser
def test_a_missing_browser_is_named_with_what_installs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert shutil.which("chromium") is None
    with pytest.raises(ConfigError, match=r"--video: expected one of chromium, .* apt install chromium"):
        Video(folder / "run.mp4")
