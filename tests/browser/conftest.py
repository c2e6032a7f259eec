"""A real browser, without a window and without a network; only on `pytest -m browser`.

The browser and its driver are the system's (/usr/bin/chromium, /usr/bin/chromedriver, or CHROMIUM and CHROMEDRIVER in the
environment). Nothing is downloaded: selenium is given both by path.
"""

import os
import shutil
from contextlib import contextmanager

import pytest

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name resolves: whatever the page asked for would fail, and be in the log.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def pytest_collection_modifyitems(config, items):
    """`make test` runs without a browser: these tests are chosen by name, with -m browser."""
    if config.getoption("markexpr"):
        return
    ours = [item for item in items if item.get_closest_marker("browser")]
    if ours:
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A function that opens a page at a width, in light or dark: `with browser(path, 1280) as driver`."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    chromedriver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    assert chromium, "chromium is not installed: run  make test-browser"
    assert chromedriver, "chromedriver is not installed: run  make test-browser"

    @contextmanager
    def opened(path, width=1280, height=900, colours="light", media=""):
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        for option in (*_OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
            options.add_argument(option)
        driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        try:
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            driver.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {
                    "media": media,
                    "features": [
                        {"name": "prefers-color-scheme", "value": colours},
                        # A page that still scrolls cannot be clicked.
                        {"name": "prefers-reduced-motion", "value": "reduce"},
                    ],
                },
            )
            driver.get(path.as_uri())
            yield driver
        finally:
            driver.quit()

    return opened
