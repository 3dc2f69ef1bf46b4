"""A headless Chromium, driven over a pipe by its own protocol (DevTools, messages that end with a zero byte)."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
START = """\
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in enumerate(ends, 3):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads from 3 and writes to 4."""
CODES = {"ArrowRight": 39}
PATIENCE = 60.0  # seconds for one answer


class Browser:
    """`complaints` are what the page, or its policy, wrote to the console since it was opened."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.number, self.session, self.rest = 0, "", b""
        self.complaints: list[str] = []
        self.events: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while (answer := self.next()).get("id") != self.number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def next(self) -> dict[str, Any]:
        until = monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reading], [], [], until - monotonic())
            assert ready, "the browser does not answer"
            more = os.read(self.reading, 1 << 16)
            assert more, "the browser has ended"
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method = message.get("method", "")
        self.events.append(method)
        if method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(message["params"]))
        return message

    def open(
        self, page: Path, fragment: str = "", *, width: int = 1280, dark: bool = False, script: bool = True
    ) -> None:
        """Loads the page in a new tab."""
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        phone = width < 700
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.complaints, self.events = [], []
        self.call("Page.navigate", url=f"{page.as_uri()}{fragment}")
        while "Page.loadEventFired" not in self.events:
            self.next()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def key(self, key: str) -> None:
        press = {"key": key, "code": key, "windowsVirtualKeyCode": CODES.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=key if len(key) == 1 else "", **press)
        self.call("Input.dispatchKeyEvent", type="keyUp", **press)


@contextmanager
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    to_read, its_write = os.pipe()
    its_read, to_write = os.pipe()
    command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", START, str(its_read), str(its_write), *command, f"--user-data-dir={profile}"],
            pass_fds=(its_read, its_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_read)
        os.close(its_write)
        try:
            made = Browser(to_read, to_write)
            yield made
            made.session = ""
            made.call("Browser.close")
        finally:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_read)
            os.close(to_write)
