"""Video of a page: headless Chromium draws each frame at its time, FFmpeg's libraries encode it (extra `video`)."""

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from idyn.errors import ConfigError, missing_extra

RATE = 25  # frames per second, of the video and of the simulation alike: a slow machine does not slow the robot down
WIDTH, HEIGHT = 1280, 720  # size of a video [px]
CODECS = {".mp4": "libx264", ".webm": "libvpx-vp9"}  # name of the encoder by the suffix of the file

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
"""Names of browsers, in the order in which they are looked for on the path."""

SOFTWARE = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
"""Options with which Chromium draws in three dimensions without a graphics card."""

LOADED = "typeof run === 'object' && run !== null"
LENGTH = "play(false), run.film.t.at(-1)"
DRAWN = "(t) => { show(t); return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }"
"""Programs in the page: whether it is ready; stop, and return the length [s]; show a time, and return when it is drawn.

The page draws in the first animation frame, so the second comes after it.
"""


class Video:
    """Writer of a video. It checks everything that can be missing before the page is made.

    Raises ConfigError for another suffix, a folder that does not exist, a missing package, and without a browser.
    """

    def __init__(self, target: Path) -> None:
        """target: path of the video; an existing file is overwritten"""
        if target.suffix not in CODECS or not target.parent.is_dir():
            raise ConfigError("--video", f"expected a file *{' or *'.join(CODECS)} in an existing folder, got {target}")
        try:
            import av  # noqa: PLC0415 - an extra
            from PIL import Image  # noqa: PLC0415 - an extra
            from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra
        except ImportError as error:
            package = (error.name or "playwright").partition(".")[0]
            raise missing_extra("--video", "a video", package, "video") from error
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            raise ConfigError("--video", f"expected one of {', '.join(BROWSERS)} on the path: apt install chromium")
        self._target, self._browser = target, browser
        self._av, self._image, self._playwright = av, Image, sync_playwright

    def write(self, page: Path, progress: Callable[[int], None]) -> int:
        """Write the first run of a page. Return the number of frames. progress: called with 1 after each frame"""
        with self._opened(page) as tab, self._av.open(str(self._target), "w") as video:
            stream: Any = video.add_stream(
                CODECS[self._target.suffix], rate=RATE, options={"crf": "24", "deadline": "realtime"}
            )
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            count = int(tab.evaluate(LENGTH) * RATE + 1e-3) + 1
            for number in range(count):
                tab.evaluate(DRAWN, number / RATE)
                picture = self._image.open(io.BytesIO(tab.screenshot())).convert("RGB")
                video.mux(stream.encode(self._av.VideoFrame.from_image(picture)))
                progress(1)
            video.mux(stream.encode())  # the frames that the encoder has kept back
        return count

    @contextmanager
    def _opened(self, page: Path) -> Iterator[Any]:
        with self._playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=self._browser, args=list(SOFTWARE), chromium_sandbox=False)
            tab = browser.new_context(offline=True, viewport={"width": WIDTH, "height": HEIGHT}).new_page()
            tab.goto(page.resolve().as_uri())
            tab.wait_for_function(LOADED)
            yield tab
            browser.close()
