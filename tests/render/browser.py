"""Chromium without a window, driven over a pipe by the DevTools protocol: no other library, no port, no network."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip


class Browser:
    """One page. `errors` collects console errors and exceptions, `requests` all addresses asked for."""

    def __init__(self, profile, width=1200, height=900, dark=False):
        down_read, self._write = os.pipe()
        self._read, up_write = os.pipe()
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        pipes = f'exec "$@" 3<&{down_read} 4>&{up_write}'  # the browser reads file 3 and writes file 4
        self._process = subprocess.Popen(
            ["bash", "-c", pipes, "bash", *command], pass_fds=(down_read, up_write), stderr=subprocess.DEVNULL
        )
        os.close(down_read)
        os.close(up_write)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", None
        self.errors, self.requests = [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def call(self, method, **parameters):
        """The result of one command; events that come before it are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(30)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path):
        """Load a file; returns the seconds until its load event."""
        start = time.monotonic()
        self._loaded = False
        self.call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._next(30)
        return time.monotonic() - start

    def run(self, expression):
        """The value of an expression (or of its promise) in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression, seconds=10):
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)
        return value

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def middle(self, selector):
        """The middle of an element in the window, scrolled there."""
        return self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )

    def picture(self, path, full=True):
        """A PNG of the page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=full)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        os.close(self._write)
        os.close(self._read)
        self._process.kill()
        self._process.wait()

    def _next(self, seconds):
        """The next message."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], seconds)
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, parameters):
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(parameters["args"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"])
