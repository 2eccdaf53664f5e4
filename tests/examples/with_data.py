#!/usr/bin/env python3
"""Runs an example that learns from data, and checks what it has learnt.

usage: with_data.py PROGRAM made-up [no-servers]
                                       on a little data made up here: it must learn what is in it; where the build
                                       has no servers, without them
       with_data.py PROGRAM missing    without data: it must say which file is missing, and fail
       with_data.py PROGRAM original   the MNIST examples, on the files in the folder $TAPESTRY_MNIST: they must reach
                                       their accuracies in 5 epochs; exit status 77, "skipped", without that variable
"""
import gzip
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile


def run(program, folder, *flags):
    """What a program prints that learns from the data in a folder, in which it also leaves its files."""
    command = [os.path.abspath(program), "--data", folder, *map(str, flags)]
    output = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    print(output)
    return output


def assert_log(folder):
    assert list(pathlib.Path(folder).glob("logs/events.out.tfevents.*")), "no log for TensorBoard"


# ---- Handwritten digits

def write_digits(folder, prefix, count, shapes, noise):
    labels = [noise.randrange(10) for _ in range(count)]
    pixels = b"".join(bytes(min(255, ink + noise.randrange(60)) for ink in shapes[label]) for label in labels)
    with gzip.open(f"{folder}/{prefix}-images-idx3-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + pixels)
    with open(f"{folder}/{prefix}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(labels))


def accuracies(output):
    return [float(accuracy) for accuracy in re.findall(r"test accuracy (\S+)", output)]


def digits(program, folder):
    noise = random.Random(1)
    shapes = [[noise.choice([0, 0, 200]) for _ in range(784)] for _ in range(10)]
    write_digits(folder, "train", 1000, shapes, noise)
    write_digits(folder, "t10k", 100, shapes, noise)
    reached = accuracies(run(program, folder, "--epochs", 2))
    assert len(reached) == 2 and reached[-1] == 1, reached


def digits_with_log(program, folder):
    digits(program, folder)
    assert_log(folder)


def digits_in_three_types(program, folder):
    """The losses of all element types are those of float32, but for rounding."""
    noise = random.Random(1)
    shapes = [[noise.choice([0, 0, 200]) for _ in range(784)] for _ in range(10)]
    write_digits(folder, "train", 1000, shapes, noise)
    write_digits(folder, "t10k", 100, shapes, noise)
    output = run(program, folder, "--epochs", 2)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", output)]
    assert accuracies(output) == [1, 1, 1] and len(losses) == 3, output
    assert all(abs(loss / losses[0] - 1) < 0.05 for loss in losses), losses


def digits_on_ranks(program, folder):
    """Threads and, where there is mpirun, processes."""
    noise = random.Random(1)
    shapes = [[noise.choice([0, 0, 200]) for _ in range(784)] for _ in range(10)]
    write_digits(folder, "train", 1000, shapes, noise)
    write_digits(folder, "t10k", 100, shapes, noise)
    for ranks in 1, 2, 3:
        output = run(program, folder, "--epochs", 2, "--batch", 60, "--ranks", ranks)
        assert accuracies(output)[-1] == 1 and f"on {ranks} ranks" in output, output
    mpirun = shutil.which("mpirun")
    if mpirun and pathlib.Path(program).resolve().parent.parent.joinpath("src/libtapestry_mpi.so").exists():
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
        command = [mpirun, "-n", "2", os.path.abspath(program), "--data", folder, "--epochs", "2", "--batch", "60"]
        output = subprocess.run(command, env={**os.environ, **as_root}, stdout=subprocess.PIPE, check=True,
                                encoding="utf-8").stdout
        print(output)
        assert accuracies(output)[-1] == 1 and "on 2 ranks" in output, output


# ---- Text

def text(program, folder):
    """Sentences of few words: what the program writes must consist of these words."""
    choose = random.Random(1)
    words = "the a cat dog bird sees hears likes big small old red".split()
    sentences = (" ".join(choose.choice(words) for _ in range(6)) + ".\n" for _ in range(2500))
    pathlib.Path(folder, "tinyshakespeare.txt").write_text("".join(sentences), encoding="utf-8")
    output = run(program, folder, "--units", 64, "--epochs", 5, "--start", "the ", "--length", 300)
    written = re.findall(r"\w+", output.split("\n\n", 1)[1])[:-1]  # the last word may be cut
    assert len(written) > 40 and sum(word in words for word in written) > 0.9 * len(written), written
    assert_log(folder)


# ---- A table

def table(program, folder):
    """Marks that depend on two of the columns, one of them not linearly; with names and semicolons, and without."""
    noise = random.Random(1)
    rows = []
    for _ in range(2000):
        row = [round(noise.uniform(0, 10), 2) for _ in range(11)]
        rows.append(row + [round(3 + 0.4 * row[10] + (2 if 3 < row[2] < 7 else 0))])
    path = pathlib.Path(folder, "winequality-white.csv")
    path.write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
    output = run(program, folder)
    names = ";".join(f'"column {i}"' for i in range(12)) + "\n"
    path.write_text(names + "\n".join(";".join(map(str, row)) for row in rows), encoding="utf-8")
    assert run(program, folder) == output
    errors = [float(error) for error in re.findall(r": off by ([\d.]+)", output)]
    assert len(errors) == 4 and errors[-1] < 0.4 * errors[0], errors


# ---- A census

def people(count, choose):
    """Who is married earns much with some jobs, and who is not with the others; some fields are unknown."""
    names = ("age, workclass, fnlwgt, education, education_num, marital_status, occupation, relationship, race, sex, "
             "capital_gain, capital_loss, hours_per_week, native_country, income")
    rows = [names]
    for _ in range(count):
        age, married, job = choose.randrange(17, 90), choose.random() < 0.5, choose.choice("Sales Tech Farming Other".split())
        rich = married == (job in ("Sales", "Tech")) and age > 30
        status = "Married" if married else "Single"
        relationship = "Spouse" if married else "?"
        rows.append(f"{age}, {choose.choice(['Private', 'State', '?'])}, 1, HS, 9, {status}, {job}, {relationship}, Any, "
                    f"{choose.choice(['Male', 'Female'])}, {choose.choice([0, 0, 5000])}, 0, 40, Here, "
                    f"{'>50K' if rich else '<=50K'}")
    return rows


def census(program, folder):
    choose = random.Random(1)
    pathlib.Path(folder, "adult-train.csv").write_text("\n".join(people(3000, choose)), encoding="utf-8")
    rows = people(500, choose)
    test = "\n".join([rows[0]] + [row + "." for row in rows[1:]])
    pathlib.Path(folder, "adult-test.csv").write_text(test, encoding="utf-8")
    assert run(program, folder, "--only", "write", "--records", "made-up") == ""
    assert len(list(pathlib.Path(folder).glob("made-up/train-*"))) == 4
    output = run(program, folder, "--only", "train", "--records", "made-up", "--epochs", 10)
    assert output == run(program, folder, "--epochs", 10), "another result from the same records"
    outputs = [output, run(program, folder, "--only", "train", "--records", "made-up", "--epochs", 10, "--ranks", 2)]
    if "no-servers" not in sys.argv:
        outputs.append(run(program, folder, "--only", "train", "--records", "made-up", "--epochs", 4, "--workers", 2))
    for wrong in (["--workers", "100000"], ["--ranks", "65"], ["--ranks", "2", "--workers", "2"], ["--epochs", "0"]):
        done = subprocess.run([program, "--data", folder] + wrong, capture_output=True, check=False, encoding="utf-8")
        assert done.returncode in (1, 2) and done.stdout == "" and wrong[0] in done.stderr, done
    for each in outputs:
        accuracy, auc = re.findall(r"test accuracy (\S+), test AUC (\S+)", each)[-1]
        assert float(accuracy) > 0.95 and float(auc) > 0.98, each


# A check on made-up data; what is said when the data are missing; the accuracy on the original data.
EXAMPLES = {
    "12_mnist_mlp": (digits, "train-images-idx3-ubyte.gz  9912422 bytes", 0.975),
    "13_mnist_cnn": (digits_with_log, "train-images-idx3-ubyte.gz  9912422 bytes", 0.99),
    "21_mixed_precision": (digits_in_three_types, "train-images-idx3-ubyte.gz  9912422 bytes", 0.97),
    "24_data_parallel": (digits_on_ranks, "train-images-idx3-ubyte.gz  9912422 bytes", None),
    "14_shakespeare": (text, "There is no tinyshakespeare.txt in the folder", None),
    "11_wine": (table, "There is no winequality-white.csv in the folder", None),
    "25_wide_and_deep": (census, "There is no adult-train.csv in the folder", None),
}


def main():
    program, data = sys.argv[1:3]
    made_up, complaint, accuracy = EXAMPLES[os.path.basename(program)]
    with tempfile.TemporaryDirectory() as folder:
        if data == "made-up":
            made_up(program, folder)
        elif data == "missing":
            done = subprocess.run([program, "--data", folder], capture_output=True, check=False, encoding="utf-8")
            assert done.returncode == 1 and done.stdout == "" and complaint in done.stderr, done
        elif "TAPESTRY_MNIST" not in os.environ:
            sys.exit(77)
        else:
            done = subprocess.run([os.path.abspath(program), "--data", os.path.abspath(os.environ["TAPESTRY_MNIST"])],
                                  cwd=folder, stdout=subprocess.PIPE, check=True, encoding="utf-8")
            print(done.stdout)
            assert max(accuracies(done.stdout)) >= accuracy


if __name__ == "__main__":
    main()
