"""Headless Chromium for tests, by the WebDriver protocol of its own driver: no package is needed.

Debian's `chromium` and `chromium-driver`, or others of these names on the path. What the page asks
for, logs and looks like is read from the browser itself.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
CALL_SECONDS = 60.0
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)


def browser_there() -> bool:
    """Whether there is a Chromium with its driver."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


class BrowserError(Exception):
    """The driver refused; its own words."""


@dataclass(frozen=True, slots=True)
class Browser:
    """One window."""

    session: str
    """The address of the driver's session."""

    def open(self, address: str) -> None:
        """Show a page, and wait until it is loaded."""
        self._call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        """What a script in the page returns; `arguments[0]` and so on are its arguments."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """What the first such element says; empty where there is none."""
        found = self.run(
            "const it = document.querySelector(arguments[0]); return it ? it.textContent : ''",
            selector,
        )
        return str(found)

    def press(self, key: str) -> None:
        """Press and release a key."""
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": keys}]
        self._call("POST", "/actions", {"actions": actions})

    def command(self, name: str, **parameters: object) -> Any:
        """A command of Chromium's own protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def window(self, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
        """Size in CSS pixels, and the colours that the user prefers."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", media="", features=[scheme])

    def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of what is in sight, or of the whole page."""
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def requests(self) -> Sequence[str]:
        """Addresses that were asked for since the last call."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        told = [json.loads(each["message"])["message"] for each in entries]
        return [
            each["params"]["request"]["url"]
            for each in told
            if each["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> Sequence[str]:
        """What the browser's console complained of since the last call."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [each["message"] for each in entries]

    def until(self, look: Callable[[], object], seconds: float, what: str) -> Any:
        """The first true value that `look` gives. Fails after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := look():
                return found
            time.sleep(0.2)
        raise AssertionError(f"{what}: not within {seconds:.0f} s")

    def _call(self, method: str, path: str, payload: Mapping[str, object]) -> Any:
        return called(method, self.session + path, payload)


def called(method: str, address: str, payload: Mapping[str, object] | None = None) -> Any:
    """Ask the driver. Raises BrowserError."""
    data = None if payload is None else json.dumps(payload).encode()
    request = urllib.request.Request(address, data, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise BrowserError(error.read().decode("utf-8", "replace")) from error


@contextmanager
def browser() -> Iterator[Browser]:
    """A window, which is closed with the context, as is the browser."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "driver.log"
        command = ["chromedriver", "--port=0", f"--log-path={log}"]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            base = f"http://127.0.0.1:{_port(driver)}"
            options = {
                "binary": shutil.which("chromium"),
                "args": [*SWITCHES, f"--user-data-dir={folder}/profile"],
            }
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
            }
            made = called("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
            session = f"{base}/session/{made['sessionId']}"
            try:
                yield Browser(session)
            finally:
                called("DELETE", session)
        finally:
            driver.terminate()
            driver.wait(10)
            assert driver.stdout is not None
            driver.stdout.close()


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if "started successfully on port" in line:
            return int(line.rstrip().rstrip(".").rpartition(" ")[2])
    raise BrowserError("the driver did not start")
