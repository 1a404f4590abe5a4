"""Kernels on stdin: `check -` reads one, the other commands say that they do not."""

from __future__ import annotations

import io
import sys

import pytest

from tests.cli.test_commands import call


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (b"import triton\n@triton.jit\ndef k(x_ptr):\n    y = x_prt\n", 3, "E_UNKNOWN_NAME"),
        (b"import triton\n@triton.jit\ndef k(x_ptr):\n    y = x_ptr\n", 0, ""),
        (b"", 3, "the file is empty"),
        (b"\xff", 3, "E_SOURCE_ENCODING"),
    ],
)
def test_check_reads_a_kernel_on_stdin(
    text: bytes, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    found, _, err = call(capsys, "check", "-")

    assert (code, True) == (found, told in err)
    assert not told or "<stdin>:" in err


@pytest.mark.parametrize("command", ["run", "compile", "inspect"])
def test_other_commands_say_that_they_read_no_stdin(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, command, "-")

    assert 2 == code and "a kernel is not read from stdin here" in err
