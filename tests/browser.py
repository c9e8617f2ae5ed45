"""A real browser for tests of pages: Chromium without a network.

Needs the extra `browser` and Debian's `chromium` (or another Chromium on the path).
"""

import shutil
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DRAWING = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
FLAGS = (*DRAWING, "--disable-background-networking", "--disable-component-update", "--disable-sync")


class Shared:
    """The browser of all pages that are open at the same time: Playwright runs once in a thread."""

    pages = 0
    playwright = browser = None

    @classmethod
    def take(cls):
        """Return the browser, started for the first page."""
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  (extra)

        if not cls.pages:
            found = next(filter(None, map(shutil.which, BROWSERS)), None)
            assert found, f"no browser on the path, expected one of {', '.join(BROWSERS)}: apt-get install chromium"
            cls.playwright = sync_playwright().start()
            cls.browser = cls.playwright.chromium.launch(executable_path=found, args=list(FLAGS), chromium_sandbox=False)
        cls.pages += 1
        return cls.browser

    @classmethod
    def leave(cls):
        """End the browser after the last page."""
        cls.pages -= 1
        if not cls.pages:
            cls.browser.close()
            cls.playwright.stop()


@contextmanager
def opened(path):
    """Open a page. Yields it, the list of its requests and the list of its errors."""
    requests, errors = [], []
    browser = Shared.take()
    try:
        context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        yield page, requests, errors
        context.close()
    finally:
        Shared.leave()
