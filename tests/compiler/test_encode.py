"""The last pass: a program of any kernel survives, and one that is too large is refused."""

import pytest

from kernbench.binary import decode
from kernbench.compiler import encode as encode_pass
from kernbench.diagnostics import KernBenchError
from tests.compiler.kernels import compiled

UNROLLED = """
def k(x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, 16))
    for i in tl.static_range(0, N):
        v = v * 0.5 + i
    tl.store(x + tl.arange(0, 16), v)
"""


def test_a_program_survives() -> None:
    kernel = compiled(UNROLLED, {"x": "*fp32"}, N=4)

    assert kernel.binary is not None
    assert kernel.program == decode(kernel.binary)


def test_a_program_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_pass, "MAX_BINARY_BYTES", 400)
    compiled(UNROLLED, {"x": "*fp32"}, N=1)

    with pytest.raises(KernBenchError) as raised:
        compiled(UNROLLED, {"x": "*fp32"}, N=64)
    assert ("E_BINARY_TOO_LARGE", 3) == (raised.value.diagnostics[0].code, raised.value.exit_code)


def test_the_dump_shows_sizes_and_every_byte() -> None:
    kernel = compiled(UNROLLED, {"x": "*fp32"}, N=1)
    assert kernel.binary is not None
    text = encode_pass.describe(kernel.binary)

    assert text.startswith(f"code {kernel.binary.nbytes_code} bytes")
    assert kernel.binary.code == b"".join(bytes.fromhex(line[10:57]) for line in text.splitlines()[1:])
