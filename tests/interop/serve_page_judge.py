"""Looks at the page of tapestry-serve in a browser without a window, uses it, and keeps the pictures.

usage: serve_page_judge.py TAPESTRY_SERVE GOLDEN_FOLDER PICTURES_FOLDER    (chromium must be installed)"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SECONDS = 60  # for anything to happen


class Browser:
    """A page in Chromium, by the DevTools protocol over a pipe."""

    def __init__(self, folder):
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()
        # Where Chromium looks for them, and above the standard streams.
        spare = [os.dup(to_browser), os.dup(from_browser)]

        def connect():
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={folder}", "about:blank"],
            close_fds=False, preexec_fn=connect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.bytes, self.number, self.session = b"", 0, None
        self.events = []
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.bytes:
                self.bytes += os.read(self.from_browser, 1 << 16)
            line, self.bytes = self.bytes.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        end = time.monotonic() + SECONDS
        while not self.value(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {expression}")
            time.sleep(0.05)

    def take_picture(self, path, width, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        time.sleep(1.5)  # the plots are drawn anew
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1})
        path.write_bytes(base64.b64decode(picture["data"]))

    def errors(self):
        """What the console or the network complained of."""
        return [each for each in self.events
                if each["method"] in ("Runtime.exceptionThrown", "Network.loadingFailed")
                or (each["method"] == "Log.entryAdded" and each["params"]["entry"]["level"] == "error")]

    def hosts(self):
        addresses = [each["params"]["request"]["url"] for each in self.events if each["method"] == "Network.requestWillBeSent"]
        return {address.split("/")[2] for address in addresses if address.startswith("http")}

    def close(self):
        self.process.kill()
        self.process.wait()


def start_server(program, golden, folder):
    """The server of two of TensorFlow's models and of one that cannot be loaded; returns it and its address."""
    models = {"image classes": "saved_model_keras", "lines": "saved_model2"}
    for name, source in models.items():
        shutil.copytree(golden / source, folder / name / "1")
    (folder / "unfinished" / "7").mkdir(parents=True)
    config = folder / "models.config"
    config.write_text("model_config_list {" + "".join(
        f'config {{ name: "{name}" base_path: "{folder / name}" }}' for name in [*models, "unfinished"]) + "}")
    server = subprocess.Popen([program, f"--model_config_file={config}", "--rest_api_port=0"], stdout=subprocess.PIPE,
                              text=True, stderr=subprocess.DEVNULL)
    return server, "http://" + server.stdout.readline().split()[-1] + "/"


def make_load(address, done):
    body = json.dumps({"instances": [[[[0.5]] * 6] * 6]}).encode()
    while not done.is_set():
        with urllib.request.urlopen(address + "v1/models/image%20classes:predict", body) as answer:
            answer.read()


def checks(browser, address, pictures):
    """Yields what is looked at, and whether it is as it should be."""
    browser.call("Page.navigate", url=address)
    browser.wait_for("document.querySelector('#graph img')?.naturalWidth > 0")
    yield "lists the models", browser.value("[...document.querySelectorAll('nav .name')].map(e => e.textContent).join()") \
        == "image classes,lines,unfinished"
    yield "tells why one cannot be loaded", "saved_model.pb" in browser.value("document.querySelector('nav .bad:not(.versions)').textContent")
    yield "shows the inputs", "[?, 6, 6, 1]" in browser.value("document.getElementById('tensors').textContent")
    browser.value("document.querySelector('#ask button').click()")
    browser.wait_for("/^\\d+ in /.test(document.getElementById('took').textContent)")
    yield "sends a request", browser.value("document.getElementById('took').textContent").startswith("200 in ")
    yield "shows the answer", "predictions" in browser.value("document.getElementById('answer').textContent")
    browser.wait_for("Number(document.getElementById('rate').textContent.replace(/\\D/g, '')) > 0")
    time.sleep(8)
    yield "plots the load", browser.value("document.querySelector('#latencies path').getAttribute('d').split('L').length") > 3
    for name, width, dark in (("light", 1400, False), ("dark", 1400, True), ("phone", 400, False), ("phone-dark", 400, True)):
        browser.take_picture(pictures / f"serve-{name}.png", width, dark)
        yield f"{name}: nothing is cut off", browser.value("document.documentElement.scrollWidth <= innerWidth")
    browser.value("[...document.querySelectorAll('nav button')].find(e => e.textContent.startsWith('lines')).click()")
    browser.wait_for("document.getElementById('title').textContent === 'lines' && document.getElementById('signature').length === 2")
    for signature in ("serving_default", "count"):
        browser.value(f"(e => {{ e.value = '{signature}'; e.onchange(); }})(document.getElementById('signature'))")
        browser.value("document.querySelector('#ask button').click()")
        browser.wait_for("/^\\d+ in /.test(document.getElementById('took').textContent)")
        yield f"makes a request for {signature}", browser.value("document.getElementById('took').textContent").startswith("200 in ")
    browser.value("document.getElementById('body').value = '{'; document.querySelector('#ask button').click()")
    browser.wait_for("document.getElementById('answer').textContent.includes('JSON Parse error')")
    yield "shows an error", True
    # The browser's console lists that answer; everything else would be a mistake of the page.
    errors = [each for each in browser.errors() if "400" not in json.dumps(each)]
    yield f"has no errors {errors}", not errors
    yield "asks nobody else", browser.hosts() == {address.split("/")[2]}


def main(program, golden, pictures):
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server, address = start_server(program, pathlib.Path(golden), folder)
        done = threading.Event()
        load = threading.Thread(target=make_load, args=(address, done))
        browser = Browser(folder / "browser")
        try:
            load.start()
            for what, good in checks(browser, address, pathlib.Path(pictures)):
                print(f"  {'passed' if good else 'failed'}: {what}")
                results.append(good)
        except RuntimeError as error:
            print(f"  failed: {error}")
            results.append(False)
        finally:
            done.set()
            load.join()
            browser.close()
            server.terminate()
            server.wait()
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
