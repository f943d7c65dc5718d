"""A browser without a window, asked through two pipes (the DevTools protocol): no driver and no package beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")

_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


class Browser:
    """One page of it. Use it in a `with`; `folder` is for what it keeps, and it is empty at first."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        its_end, ours = os.pipe(), os.pipe()
        self._asked, self._told = os.fdopen(its_end[1], "wb"), os.fdopen(ours[0], "rb")
        self._last = 0
        self._session: str | None = None
        # It reads from descriptor 3 and writes to 4.
        script = f'exec "$0" "$@" 3<&{its_end[0]} 4>&{ours[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, PROGRAM, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(its_end[0], ours[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(its_end[0])
        os.close(ours[1])
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.enable")

    def resize(self, width: int, height: int, *, phone: bool) -> None:
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def open(self, page: Path) -> None:
        """Until it is loaded."""
        answer = self._ask("Page.navigate", until="Page.loadEventFired", url=page.as_uri())
        assert "errorText" not in answer, f"{page}: {answer['errorText']}"

    def enter(self, text: str) -> None:
        """Where the cursor is, key by key."""
        for letter in text:
            self._ask("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def value(self, expression: str) -> Any:
        """Of JavaScript; a promise is waited for."""
        answer = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _ask(self, method: str, until: str = "", **parameters: Any) -> dict[str, Any]:
        """The answer, and not before the event `until`."""
        self._last += 1
        asked = {"id": self._last, "method": method, "params": parameters}
        self._asked.write(json.dumps({**asked, **({"sessionId": self._session} if self._session else {})}).encode())
        self._asked.write(b"\0")
        self._asked.flush()
        answer: dict[str, Any] | None = None
        while answer is None or until:
            told = json.loads(self._next())
            if told.get("id") == self._last:
                assert "error" not in told, told
                answer = told["result"]
            if told.get("method") == until:
                until = ""
        return answer

    def _next(self) -> bytes:
        message = bytearray()
        while (byte := self._told.read(1)) != b"\0":
            if not byte:
                raise RuntimeError(f"the browser ended with code {self._process.wait()}")
            message += byte
        return bytes(message)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._asked.close()  # ends it
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._told.close()
