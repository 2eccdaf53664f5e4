#!/usr/bin/env python3
"""Starts tapestry-serve and asks it over HTTP and HTTPS.

usage: program.py PROGRAM GOLDEN_FOLDER [--grpc]"""

import json
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request


class Server:
    def __init__(self, program, *flags):
        self.process = subprocess.Popen([program, "--rest_api_port=0", *flags], stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line.startswith("Listening on 127.0.0.1:"), line + self.process.stderr.read()
        self.port = int(line.rsplit(":", 1)[1])

    def ask(self, path, body=None, scheme="http", context=None, **headers):
        """The status and the body of an answer."""
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.port}{path}", headers=headers,
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def wait_for(self, path, text):
        end = time.monotonic() + 60
        while text not in self.ask(path)[1]:
            assert time.monotonic() < end, self.ask(path)
            time.sleep(0.02)

    def end(self, by=signal.SIGTERM):
        """Ends the server; what it has logged."""
        self.process.send_signal(by)
        _, log = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, log
        return log


def run(program, *flags):
    return subprocess.run([program, *flags], capture_output=True, text=True, timeout=30)


def check_flags(program, folder):
    assert run(program, "--help").stdout.startswith("usage: tapestry-serve ")
    for flags, complaint in (((), "Either --model_base_path or --model_config_file tells what to serve"),
                             (("--model_base_path=m", "--prot=1"), "Unknown flag: --prot=1"),
                             (("--model_base_path=m", "--host=0.0.0.0"), "set a token by --token_file"),
                             (("--model_config_file=" + str(folder / "none"),), "Cannot read the file"),
                             (("--model_base_path=m", "--host=192.0.2.1", "--insecure"), "Cannot listen on 192.0.2.1:8501")):
        done = run(program, *flags)
        assert done.returncode == 1 and not done.stdout and complaint in done.stderr, done


def check_models(program, golden, folder):
    """TensorFlow's models, a configuration that changes, and a version that appears."""
    shutil.copytree(golden / "saved_model1", folder / "one" / "1")
    shutil.copytree(golden / "saved_model2", folder / "two" / "5")
    config = folder / "models.config"
    one = f'config {{ name: "one" base_path: "{folder / "one"}" }}'
    config.write_text(f"model_config_list {{ {one} }}")
    server = Server(program, f"--model_config_file={config}", "--model_config_file_poll_wait_seconds=1")
    status, body = server.ask("/v1/models/one:predict", {"instances": [[1, 2]]})
    assert status == 200 and len(json.loads(body)["predictions"][0]) == 3, body
    assert server.ask("/v1/models/two")[0] == 404
    config.write_text(f'model_config_list {{ {one} config {{ name: "two" base_path: "{folder / "two"}" }} }}')
    server.wait_for("/v1/models/two", '"AVAILABLE"')
    # A signature that changes a Variable.
    counts = [server.ask("/v1/models/two:predict", {"signature_name": "count", "inputs": 2})[1] for _ in range(2)]
    assert [json.loads(each)["outputs"] for each in counts][1] - json.loads(counts[0])["outputs"] == 2, counts
    config.write_text("model_config_list { nonsense")
    shutil.copytree(golden / "saved_model1", folder / "hidden")
    (folder / "hidden").rename(folder / "one" / "2")
    server.wait_for("/v1/models/one/versions/1", '"END"')
    assert '"AVAILABLE"' in server.ask("/v1/models/one/versions/2")[1]
    log = server.end()
    assert "The models stay as they are: " in log and "Serving version 2 of one" in log, log
    assert "Ending when all requests are answered" in log, log

    config.write_text(f"model_config_list {{ {one} }}")
    server = Server(program, f"--model_config_file={config}")
    config.write_text(f'model_config_list {{ config {{ name: "two" base_path: "{folder / "two"}" }} }}')
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("/v1/models/two", '"AVAILABLE"')
    server.end()


def check_grpc(program, folder):
    """The port for gRPC is printed; what a client gets there is tested without Python."""
    server = Server(program, f"--model_base_path={folder / 'one'}", "--port=0")
    line = server.process.stdout.readline()
    assert line.startswith("Listening on 127.0.0.1:") and line.endswith(" for gRPC\n"), line
    with socket.create_connection(("127.0.0.1", int(line.split()[2].rsplit(":", 1)[1])), 30) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))  # and empty settings
        assert client.recv(9)[3] == 4  # the settings of the server
        # A client that is connected, but asks and answers nothing, does not keep the server from ending.
        start = time.monotonic()
        server.end()
        assert time.monotonic() - start < 15


def check_token_and_tls(program, folder):
    token = folder / "token"
    token.write_text("secret\n")
    flags = [f"--model_base_path={folder / 'one'}", f"--token_file={token}"]
    scheme, context = "http", None
    if shutil.which("openssl"):
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
                       check=True, capture_output=True)
        flags += [f"--ssl_certificate={certificate}", f"--ssl_key={key}"]
        scheme, context = "https", ssl.create_default_context(cafile=str(certificate))
        wrong = run(program, *flags[:-1], f"--ssl_key={token}", "--rest_api_port=0")
        assert wrong.returncode == 1 and "Cannot use the certificate" in wrong.stderr, wrong
    server = Server(program, *flags)
    assert server.ask("/v1/models/default", scheme=scheme, context=context)[0] == 401
    assert server.ask("/v1/models/default", scheme=scheme, context=context, Authorization="Bearer secret")[0] == 200
    server.end(signal.SIGINT)


def main(program, golden, *flags):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_flags(program, folder)
        check_models(program, pathlib.Path(golden), folder)
        if "--grpc" in flags:
            check_grpc(program, folder)
        check_token_and_tls(program, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
