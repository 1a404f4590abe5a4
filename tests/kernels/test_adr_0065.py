"""The eight test requirements of ADR-0065, by number, and what its decisions say beside them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kernbench.commands import CompositeTemplate
from kernbench.compiler import recipes
from kernbench.data_files import data_dir
from kernbench.run import Run
from kernbench.sim.op_log import OpRecord
from tests.kernels.helpers import composites, failure, log_text, records, run_text, rw_aware, shipped

RNG = np.random.default_rng(65)

# --------------------------------------------------------------------------- decode attention that shows m, l and O

STATE = """    tl.store(out_ptr + rows * D + columns, O)
    tl.store(M + tl.arange(0, G), m)
    tl.store(L + tl.arange(0, G), l)
"""


def decode_text(name: str) -> str:
    """A shipped decode kernel that leaves its state instead of the normalised output."""
    text = (data_dir("kernels") / f"{name}.tl").read_text("utf-8")
    text = text[text.index("def ") :].replace("Q, K, V, O, S,", "Q, K, V, O, M, L, S,")
    state = STATE if "out_ptr" in text else STATE.replace("out_ptr", "O").replace(", O)", ", acc)")
    text, count = re.subn(r"    tl\.store\(\w+ \+ rows.*\n", state, text)
    assert count == 1
    return text


def decode(name: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, **fields: Any) -> tuple[Run, np.ndarray]:
    """(m, l, O) side by side, and the run."""
    (g, d), s = q.shape, len(k)
    args = {"Q": q, "K": k, "V": v, "S": s, "O": np.zeros((g, d), np.float32)}
    args |= {"M": np.zeros(g, np.float32), "L": np.zeros(g, np.float32)}
    run = run_text(decode_text(name), args, opt=0 if name.endswith("3") else 1, G=g, D=d, TILE=64, **fields)
    if run.mode == "timing":
        return run, np.zeros(0)
    return run, np.concatenate([run["M"][:, None], run["L"][:, None], run["O"]], axis=1)


def cache(s: int, g: int = 4, d: int = 32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, k, v = (RNG.normal(size=(n, d)).astype(np.float16) for n in (g, s, s))
    return q, k, v


def state_of(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What is known of m, l and O without any of our code."""
    scores = q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(q.shape[1])
    m = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - m)
    return np.concatenate([m, p.sum(axis=1, keepdims=True), p @ v.astype(np.float64)], axis=1)


def merges(run: Run) -> list[int]:
    """Templates of the composites that carry m, l and O."""
    return [node.id for node in composites(run) if node.rw_handles]


def of_template(run: Run, template: int, *kinds: str) -> dict[int, list[OpRecord]]:
    """Records of a template's commands, by command."""
    found: dict[int, list[OpRecord]] = {}
    for record in records(run, *kinds):
        if record.params is not None and record.params.get("template") == template:
            found.setdefault(record.cmd, []).append(record)
    return found


STAGES = ("dma_read", "fetch", "gemm", "math", "store", "dma_write")

# --------------------------------------------------------------------------- 1

LINEAR = """
def k(a_ptr, b_ptr, bias_ptr, c_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    bias = tl.load(bias_ptr + tl.arange(0, N))
    a = tl.ref(a_ptr, (M, K))
    b = tl.ref(b_ptr, (K, N))
    c = tl.ref(c_ptr, (M, N))
    kb.composite(CALL)
"""
CLASSIC = 'op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "other": bias}, {"op": "max_elem", "other": 0.0}]'
IN_FULL = (
    'prologue=[], a=a, b=b, op="gemm", out=None, out_ptr=c_ptr, epilogue=['
    '{"op": "add", "src_b": bias, "bcast_axis": None, "scope": "OUTPUT_TILE"}, '
    '{"scope": "OUTPUT_TILE", "src_b": 0.0, "op": "max_elem"}]'
)


def linear_args(m: int = 96, k: int = 130, n: int = 70) -> dict[str, Any]:
    a, b = RNG.normal(size=(m, k)).astype(np.float16), RNG.normal(size=(k, n)).astype(np.float16)
    return {"a_ptr": a, "b_ptr": b, "bias_ptr": RNG.normal(size=n).astype(np.float32), "c_ptr": np.zeros((m, n), "f4")}


def test_1_the_classic_call_and_the_same_in_full_give_equal_op_logs() -> None:
    args = linear_args()
    classic = run_text(LINEAR.replace("CALL", CLASSIC), args, M=96, K=130, N=70)
    in_full = run_text(LINEAR.replace("CALL", IN_FULL), args, M=96, K=130, N=70)
    expected = np.maximum(args["a_ptr"].astype("f4") @ args["b_ptr"].astype("f4") + args["bias_ptr"], 0)

    assert log_text(classic) == log_text(in_full)
    assert np.allclose(expected, classic["c_ptr"], rtol=1e-2, atol=1e-2)
    assert np.array_equal(classic["c_ptr"], in_full["c_ptr"])
    (command,) = composites(classic)
    assert ["gemm", "add", "max_elem"] == [op.kind for op in command.ops]


# --------------------------------------------------------------------------- 2


def merge_of(run: Run) -> CompositeTemplate:
    (found,) = [node for node in composites(run) if node.rw_handles]
    return found


def test_2_softmax_merge_its_gemm_and_the_add_are_ten_ops_that_write_m_l_and_o() -> None:
    run, _ = shipped("gqa_decode_opt2", mode="timing")
    merge = merge_of(run)

    expected = "rmax max_elem exp_diff exp_diff rsum fma mul_bcast copy gemm add"
    assert expected.split() == [op.kind for op in merge.ops]
    assert ["m", "l", "O"] == [handle.name for handle in merge.rw_handles]
    gemm = merge.ops[8]
    assert ["P", "tcm"] == [gemm.operands["a"].name, gemm.operands["a"].space]
    assert (merge.ops[3].out, "hbm") == (gemm.operands["a"], gemm.operands["b"].space)
    assert ["KERNEL"] * 9 + ["OUTPUT_TILE"] == [op.scope.value for op in merge.ops]


# --------------------------------------------------------------------------- 3


def test_3_no_dma_of_v_during_the_prologue_of_its_composite() -> None:
    run, _ = shipped("gqa_decode_opt2", S=512)
    (template,) = merges(run)
    commands = of_template(run, template, *STAGES)

    assert 8 == len(commands)
    for stages in commands.values():
        prologue = [r for r in stages if r.op_kind == "math" and r.tile == -1]
        reads = [r for r in stages if r.op_kind == "dma_read"]
        assert (8, 2) == (len(prologue), len(reads))
        assert min(r.t_start_ps for r in reads) >= max(r.t_end_ps for r in prologue)
        heads = [r.t_start_ps for r in stages if r.op_kind in ("fetch", "gemm")]
        assert min(r.t_start_ps for r in reads) <= min(heads)


# --------------------------------------------------------------------------- 4


@pytest.mark.parametrize("issue", ["in_order", "rw_aware"])
def test_4_composites_that_share_m_l_and_o_run_one_after_the_other(issue: str) -> None:
    topology = "ahbm_1x1" if issue == "in_order" else rw_aware()
    run, _ = decode("gqa_decode_opt2", *cache(512), topology=topology, mode="timing")
    (template,) = merges(run)
    spans = [
        (min(r.t_start_ps for r in stages), max(r.t_end_ps for r in stages))
        for _, stages in sorted(of_template(run, template, *STAGES).items())
    ]

    assert 8 == len(spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


# --------------------------------------------------------------------------- 5

SPACES = """
def k(a_ptr, b_ptr, c_ptr):
    i = tl.arange(0, 64)
    a = A
    b = B
    c = C
    kb.composite(op="gemm", a=a, b=b, out=c)
    STORE
"""
PLACES = {
    "hbm": {"A": "tl.ref(a_ptr, (64, 64))", "B": "tl.ref(b_ptr, (64, 64))", "C": "tl.ref(c_ptr, (64, 64))"},
    "tcm": {
        "A": "tl.load(a_ptr + i[:, None] * 64 + i)",
        "B": "tl.load(b_ptr + i[:, None] * 64 + i)",
        "C": "tl.zeros((64, 64), tl.float32)",
    },
}


@pytest.mark.parametrize("spaces", [(a, b, c) for a in PLACES for b in PLACES for c in PLACES])
def test_5_dma_stages_come_from_the_space_of_a_b_and_out_alone(spaces: tuple[str, str, str]) -> None:
    text = SPACES
    for letter, space in zip("ABC", spaces, strict=True):
        text = re.sub(rf"= {letter}\n", f"= {PLACES[space][letter]}\n", text)
    store = "tl.store(c_ptr + i[:, None] * 64 + i, c)" if spaces[2] == "tcm" else "return"
    args = linear_args(64, 64, 64)
    del args["bias_ptr"]
    run = run_text(text.replace("STORE", store), args)
    gemm = next(node for node in composites(run) if any(op.kind == "gemm" for op in node.ops))
    (stages,) = of_template(run, gemm.id, "dma_read", "dma_write").values() if "hbm" in spaces else [[]]

    expected = [(name, space) for name, space in zip(("a", "b", "out"), spaces, strict=True) if space == "hbm"]
    assert [name for name, _ in expected] == [r.op_name for r in stages]
    assert ["dma_write" if name == "out" else "dma_read" for name, _ in expected] == [r.op_kind for r in stages]
    product = args["a_ptr"].astype("f4") @ args["b_ptr"].astype("f4")
    assert np.allclose(product, run["c_ptr"], rtol=1e-3, atol=1e-3)


# --------------------------------------------------------------------------- 6


@pytest.mark.parametrize("s", [64, 320])
def test_6_opt2_and_opt3_end_with_the_same_m_l_and_o(s: int) -> None:
    q, k, v = cache(s)
    opt2, opt3 = decode("gqa_decode_opt2", q, k, v)[1], decode("gqa_decode_opt3", q, k, v)[1]

    assert np.allclose(opt2, opt3, rtol=1e-2, atol=1e-2)
    assert np.allclose(state_of(q, k, v), opt2, rtol=1e-2, atol=1e-2)
    assert np.allclose(state_of(q, k, v), opt3, rtol=1e-2, atol=1e-2)


# --------------------------------------------------------------------------- 7


def dispatch(name: str, s: int) -> tuple[int, int, int]:
    """Picoseconds, commands and bytes of all dispatches."""
    run, _ = shipped(name, mode="timing", S=s)
    found = records(run, "dispatch")
    for record in found:
        assert record.duration_ps == 32_000 + -(-record.nbytes * 1000 * 2 // 3)  # 32 ns + bytes / 1.5 bytes/ns
    return sum(r.duration_ps for r in found), len(found), sum(r.nbytes for r in found)


def test_7_opt3_dispatches_about_2_4_times_as_long_as_opt2() -> None:
    """From two contexts: the same for every tile, so that the long case (8,192, 128 tiles) follows."""
    per_tile, long = {}, {}
    for name in ("gqa_decode_opt2", "gqa_decode_opt3"):
        small, large = dispatch(name, 128), dispatch(name, 256)
        tile = [(b - a) / 2 for a, b in zip(small, large, strict=True)]
        per_tile[name] = tile[1:]
        long[name] = small[0] + 126 * tile[0]

    assert {"gqa_decode_opt2": [2, 382], "gqa_decode_opt3": [13, 512]} == per_tile
    assert 2.3 <= long["gqa_decode_opt3"] / long["gqa_decode_opt2"] <= 2.5


# --------------------------------------------------------------------------- 8


def test_8_two_gemms_are_an_error_at_the_second_ones_line() -> None:
    call = 'kb.composite(\n        op="gemm", a=a, b=b,\n        epilogue=[{"op": "gemm", "b": b}],\n    )'
    text = LINEAR.replace("kb.composite(CALL)", call)
    error = failure(text, linear_args(), M=96, K=130, N=70)
    (found,) = error.diagnostics

    assert ("E_TWO_GEMMS", "the composite has 2 gemms, at most 1 is allowed") == (found.code, found.message)
    assert found.primary is not None and "kb.composite(" in found.primary.source
    assert "kb.composite(" in error.render()


# --------------------------------------------------------------------------- beside the eight


def test_a_masked_tile_leaves_m_l_and_o_as_they_were() -> None:
    """Between two tiles, one whose scores are all −inf; and a first tile that is masked too."""
    text = """
def k(s_ptr, v_ptr, o_ptr, m_ptr, l_ptr, N, T: tl.constexpr, D: tl.constexpr):
    r = tl.arange(0, 4)
    c = tl.arange(0, T)
    d = tl.arange(0, D)
    m = tl.full((4,), -float("inf"), tl.float32)
    l = tl.zeros((4,), tl.float32)
    O = tl.zeros((4, D), tl.float32)
    for start in range(0, N, T):
        with tl.scratch_scope():
            s = tl.load(s_ptr + r[:, None] * N + start + c)
            kb.composite(
                prologue=[{"op": "softmax_merge", "s": s, "m": m, "l": l, "O": O}],
                op="gemm", b=tl.ref(v_ptr + start * D, (T, D)), out=O, epilogue=[{"op": "add", "other": O}],
            )
    tl.store(o_ptr + r[:, None] * D + d, O)
    tl.store(m_ptr + r, m)
    tl.store(l_ptr + r, l)
"""
    t, d = 16, 8
    s, v = RNG.normal(size=(4, 2 * t)).astype("f4"), RNG.normal(size=(2 * t, d)).astype("f4")

    def state(s: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
        args = {"s_ptr": s, "v_ptr": v, "o_ptr": np.ones((4, d), "f4"), "m_ptr": np.ones(4, "f4")}
        run = run_text(text, {**args, "l_ptr": np.ones(4, "f4"), "N": s.shape[1]}, T=t, D=d)
        return {name: run[name] for name in ("o_ptr", "m_ptr", "l_ptr")}

    masked = np.full((4, t), -np.inf, "f4")
    rubbish = np.full((t, d), 7, "f4")
    plain = state(s, v)
    between = state(np.concatenate([s[:, :t], masked, s[:, t:]], 1), np.concatenate([v[:t], rubbish, v[t:]]))
    first = state(np.concatenate([masked, s], 1), np.concatenate([rubbish, v]))
    nothing = state(masked, rubbish)

    for name, values in plain.items():
        assert np.array_equal(values, between[name]), name
        assert np.array_equal(values, first[name]), name
    assert np.isneginf(nothing["m_ptr"]).all()
    assert not nothing["l_ptr"].any() and not nothing["o_ptr"].any()


@pytest.mark.parametrize("issue", ["in_order", "rw_aware"])
def test_the_issue_policy_changes_no_value(issue: str) -> None:
    q, k, v = cache(320)
    topology = "ahbm_1x1" if issue == "in_order" else rw_aware()

    assert np.allclose(state_of(q, k, v), decode("gqa_decode_opt2", q, k, v, topology=topology)[1], atol=1e-2)
    if issue == "rw_aware":
        plain = decode("gqa_decode_opt2", q, k, v)[1]
        assert np.array_equal(plain, decode("gqa_decode_opt2", q, k, v, topology=topology)[1])


@pytest.mark.parametrize("tile", [64, 128, 256])
def test_passing_a_blocked_composite_delays_nobody(tile: int) -> None:
    times = [
        shipped("gqa_decode_opt2", topology=topology, mode="timing", S=4 * tile, TILE=tile)[0].total_ns
        for topology in ("ahbm_1x1", rw_aware())
    ]

    assert 0.97 * times[0] <= times[1] <= times[0]


# --------------------------------------------------------------------------- pieces of the context

PIECES = """
def k(q_ptr, k_ptr, v_ptr, o_ptr, m_ptr, l_ptr, PIECES, ROWS, valid, G: tl.constexpr, D: tl.constexpr, T: tl.constexpr):
    g = tl.arange(0, G)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + g[:, None] * D + d)
    for piece in range(PIECES):
        m = tl.full((G,), -float("inf"), tl.float32)
        l = tl.zeros((G,), tl.float32)
        O = tl.zeros((G, D), tl.float32)
        end = min(piece * ROWS + ROWS, valid)
        for start in range(piece * ROWS, piece * ROWS + ROWS, T):
            with tl.scratch_scope():
                k_t = tl.ref(k_ptr + start * D, (D, T), strides=(1, D))
                s = kb.composite(op="gemm", a=q, b=k_t, epilogue=[{"op": "mul", "other": 1.0 / D**0.5}])
                s = tl.where(start + tl.arange(0, T)[None, :] < end, s, -float("inf"))
                kb.composite(
                    prologue=[{"op": "softmax_merge", "s": s, "m": m, "l": l, "O": O}],
                    op="gemm", b=tl.ref(v_ptr + start * D, (T, D)), out=O, epilogue=[{"op": "add", "other": O}],
                )
        tl.store(o_ptr + (piece * G + g[:, None]) * D + d, O)
        tl.store(m_ptr + piece * G + g, m)
        tl.store(l_ptr + piece * G + g, l)
"""


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 16])
def test_attention_in_pieces_is_attention_with_pieces_that_are_masked_whole(pieces: int) -> None:
    """336 rows, 150 of them valid; each piece leaves m, l and O, and these are merged here."""
    s, valid, tile, g, d = 336, 150, 32, 4, 32
    q, k, v = cache(s + tile, g, d)
    args = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "o_ptr": np.ones((pieces, g, d), "f4")}
    args |= {"m_ptr": np.ones((pieces, g), "f4"), "l_ptr": np.ones((pieces, g), "f4")}
    numbers = {"PIECES": pieces, "ROWS": s // pieces, "valid": valid}
    run = run_text(PIECES, {**args, **numbers}, G=g, D=d, T=tile)
    m, l_sum, o = (run[name].astype("f8") for name in ("m_ptr", "l_ptr", "o_ptr"))
    weight = np.exp(m - m.max(axis=0))
    merged = (o * weight[:, :, None]).sum(axis=0) / (l_sum * weight).sum(axis=0)[:, None]
    whole = state_of(q, k[:valid], v[:valid])

    assert (pieces > 1) == bool(np.isneginf(m).any())
    assert np.allclose(whole[:, 2:] / whole[:, 1:2], merged, rtol=1e-2, atol=1e-2)


# --------------------------------------------------------------------------- recipes are names of the compiler only


def test_every_recipe_has_a_place_in_a_shipped_kernel() -> None:
    texts = [path.read_text("utf-8") for path in data_dir("kernels").glob("*.tl")]

    assert [] == [name for name in recipes.RECIPE_DESCRIPTORS if not any(f'"op": "{name}"' in text for text in texts)]


@pytest.mark.parametrize("name", sorted(recipes.RECIPE_DESCRIPTORS))
def test_renaming_a_recipe_changes_no_byte_of_any_op_log(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    users = [path for path in sorted(data_dir("kernels").glob("*.tl")) if f'"op": "{name}"' in path.read_text("utf-8")]
    before = {path.stem: log_text(shipped(path.stem, mode="timing")[0]) for path in users}
    other = "renamed".ljust(len(name), "_")
    monkeypatch.setitem(recipes.RECIPE_DESCRIPTORS, other, recipes.RECIPE_DESCRIPTORS[name])
    monkeypatch.delitem(recipes.RECIPE_DESCRIPTORS, name)
    for path in users:
        text = path.read_text("utf-8").replace(f'"op": "{name}"', f'"op": "{other}"')
        assert before[path.stem] == log_text(shipped(path.stem, mode="timing", text=text)[0])
