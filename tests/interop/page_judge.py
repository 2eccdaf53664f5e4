"""Looks at an event file of ours on TensorBoard's page, in a browser without a window, and keeps the pictures.

usage: page_judge.py EVENTS_FOLDER PICTURES_FOLDER    (chromium must be installed)

Each page must show the colours of what it should draw, in at least so many dots."""

import contextlib
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
from PIL import Image

# The colours that TensorBoard gives to edges and to the first run, and those of our picture.
EDGE, RUN, OLDEST, DISC, GROUND = (183, 183, 183), (255, 112, 67), (191, 54, 12), (200, 40, 40), (30, 40, 180)
PAGES = {
    "graphs": [(EDGE, 2000)],
    "scalars": [(RUN, 300)],
    "histograms": [(RUN, 1000), (OLDEST, 1000)],
    "images": [(DISC, 10000), (GROUND, 10000)],
}
# How far a colour may be off: pictures are scaled, and histograms shade from one colour to the other.
NEAR = 16
SECONDS_TO_START, SECONDS_TO_DRAW = 300, 40


@contextlib.contextmanager
def tensorboard(folder):
    """The address of a TensorBoard that shows the folder."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    program = pathlib.Path(sys.executable).with_name("tensorboard")
    with subprocess.Popen([program, "--logdir", folder, "--port", str(port), "--load_fast=false"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            address = f"http://localhost:{port}/"
            end = time.monotonic() + SECONDS_TO_START
            while not is_ready(address):
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit("TensorBoard does not start")
                time.sleep(0.5)
            yield address
        finally:
            server.terminate()


def is_ready(address):
    try:
        # Before that the page would say that there are no data.
        with urllib.request.urlopen(address + "data/runs", timeout=5) as answer:
            return answer.read().strip() not in (b"", b"[]")
    except OSError:
        return False


def take_picture(address, path):
    subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    "--force-device-scale-factor=2", "--window-size=1500,1000", f"--screenshot={path}",
                    f"--virtual-time-budget={SECONDS_TO_DRAW * 1000}", address],
                   check=True, timeout=600, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def dots(path, colour):
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    return np.count_nonzero(np.abs(pixels - colour).max(axis=2) <= NEAR)


def main(events, pictures):
    failed = 0
    with tensorboard(events) as address:
        for page, due in PAGES.items():
            path = pathlib.Path(pictures) / f"{page}.png"
            take_picture(f"{address}#{page}", path)
            found = [dots(path, colour) for colour, _ in due]
            good = all(count >= least for count, (_, least) in zip(found, due))
            failed += not good
            print(f"  {page:10} {'passed' if good else 'failed'}: {path} has {found} dots of its colours")
    print(f"{len(PAGES) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) != 0)
