"""Writes tests/golden/pytorch: files of torch.save, which tests/pytorch_test.cpp reads.

usage: pytorch_files.py FOLDER"""

import argparse
import collections
import pathlib
import sys

import torch


def tensors():
    """Each is a case of how a file stores tensors; the test knows their values."""
    numbers = torch.arange(6.0).reshape(2, 3)
    kinds = {str(dtype)[6:]: torch.arange(-1 if dtype.is_signed else 0, 3).to(dtype)
             for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
                           torch.int8, torch.uint8, torch.bool)}
    return collections.OrderedDict(
        kinds, numbers=numbers, transposed=numbers.t(), part=numbers[1, 1:], tied=numbers, scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 3), expanded=torch.tensor([1.0, 2.0]).expand(3, 2), parameter=torch.nn.Parameter(torch.ones(2)))


def trained():
    """A model and its optimizer after a step in which all gradients are 1."""
    model = torch.nn.Sequential(collections.OrderedDict(dense=torch.nn.Linear(2, 1), norm=torch.nn.BatchNorm1d(1)))
    with torch.no_grad():
        model.dense.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.dense.bias.fill_(3.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


def main(folder):
    state = tensors()
    torch.save(state, folder / "state.pt")
    torch.save(state, folder / "protocol_4.pt", pickle_protocol=4)
    torch.save(state, folder / "early.pth", _use_new_zipfile_serialization=False)
    model, optimizer = trained()
    torch.save({"epoch": 3, "rate": 0.5, "best": None, "arguments": argparse.Namespace(layers=2), 7: "seven",
                "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "history": [0.25, torch.tensor([1, 2]), (torch.tensor(True),)]}, folder / "checkpoint.pth")
    torch.save(torch.arange(3), folder / "tensor.pt")
    torch.save(torch.nn.Linear(2, 1), folder / "module.pt")
    torch.save({"sparse": torch.eye(2).to_sparse()}, folder / "sparse.pt")
    torch.save({"complex": torch.tensor([1j])}, folder / "complex.pt")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
