from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench import dtypes
from kernbench.diagnostics import EXIT_INPUT, EXIT_USAGE, KernBenchError
from kernbench.runtime import errors
from kernbench.runtime.bench import BenchCase, bench_beside, case_names, check_bench, load_bench
from kernbench.runtime.init import Init, generator, initial
from kernbench.runtime.placement import On, Replicate, Shard
from kernbench.runtime.reference import compare
from kernbench.yaml_source import YAML_ERRORS

BENCH = """\
kernel: k.tl::decode
topology: ahbm_2x2
opt: 0
constexprs: {G: 4, D: 2 * G, NAME: "'relu'", TYPE: fp16}
scalars: {S: 6, ROWS: "cdiv(S, 4) * G", scale: 1 / sqrt(D), none: null, half: {value: 65500, dtype: fp16}}
tensors:
  q: {shape: [ROWS, D], dtype: fp16, place: {shard: 0, over: [cube, pe]}, init: normal}
  w: {shape: [D], dtype: bf16, place: replicate, init: uniform}
  i: {shape: [S], dtype: i32, place: {"on": [0, 1, 0]}, init: {value: "S - 1 - arange(S)"}}
  o: {shape: [ROWS, D], dtype: fp32}
grid: [cdiv(ROWS, 2), G]
expect: {o: q * w}
tolerance: {rtol: 1e-2, atol: 1e-3}
cases:
  tiny: {topology: ahbm_1x1, scalars: {S: 1}, tensors: {w: {init: ones}}, grid: null}
  long: {constexprs: {G: 8}, seed: 5}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    path = tmp_path / "k.yaml"
    path.write_text(BENCH, encoding="utf-8")
    return path


def loaded(tmp_path: Path, text: str, **options: Any) -> BenchCase:
    path = tmp_path / "b.yaml"
    path.write_text(text, encoding="utf-8")
    return load_bench(path, **options)


def edited(old: str, new: str) -> str:
    assert old in BENCH
    return BENCH.replace(old, new)


# --------------------------------------------------------------------------- what a case says


def test_a_bench_file_resolves(bench: Path) -> None:
    case = load_bench(bench)

    assert {"G": 4, "D": 8, "NAME": "relu", "TYPE": dtypes.fp16} == case.constexprs
    assert {"S": 6, "ROWS": 8, "scale": 1 / np.sqrt(8), "none": None, "half": np.float16(65504)} == case.scalars
    assert np.float16 is type(case.scalars["half"])
    assert (4, 4) == case.grid
    assert (str(bench.parent / "k.tl::decode"), "ahbm_2x2", 0) == (case.kernel, case.topology, case.opt_level)
    assert {"q": Shard(0, ("cube", "pe")), "w": Replicate(), "i": On(0, 1, 0)} == case.placements
    assert {"q": (8, 8), "w": (8,), "i": (6,), "o": (8, 8)} == {n: a.shape for n, a in case.arrays().items()}
    assert [5, 4, 3, 2, 1, 0] == case.arrays()["i"].tolist()
    assert (0.01, 0.001) == (case.rtol, case.atol)


def test_a_case_puts_its_keys_over_the_rest(bench: Path) -> None:
    tiny, long = load_bench(bench, "tiny"), load_bench(bench, "long", seed=2)

    assert ("ahbm_1x1", 4, None) == (tiny.topology, tiny.scalars["ROWS"], tiny.grid)
    assert {1.0} == set(tiny.arrays()["w"].astype(np.float32).tolist())
    assert (16, 7) == (long.constexprs["D"], long.seed)
    assert ("tiny", "long") == case_names(bench)


def test_set_wins_over_the_file_and_may_use_its_names(bench: Path) -> None:
    case = load_bench(bench, sets={"S": "3 * G", "NEW": "7"}, parameters={"NEW": True})

    assert (12, 12, 7) == (case.scalars["S"], case.scalars["ROWS"], case.constexprs["NEW"])


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"case": "tony"}, "E_BENCH_CASE", "tiny"),
        ({"sets": {"SS": "1"}}, "E_BENCH_NAME", "SS"),
        ({"sets": {"S": "1 +"}}, "E_EXPRESSION_SYNTAX", "ends too early"),
        ({"sets": {"S": "T"}}, "E_EXPRESSION_NAME", "`T`"),
    ],
)
def test_a_wrong_option_is_a_usage_error(bench: Path, options: Any, code: str, says: str) -> None:
    with pytest.raises(KernBenchError) as caught:
        load_bench(bench, **options)

    assert EXIT_USAGE == caught.value.exit_code
    assert [code] == [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert says in str(caught.value)


def test_a_file_may_extend_another(bench: Path) -> None:
    other = bench.parent / "other.yaml"
    other.write_text("extends: k.yaml\nkernel: other.tl\nopt: 1\n", encoding="utf-8")

    case = load_bench(other, "tiny")

    assert (str(bench.parent / "other.tl"), 1, 4) == (case.kernel, case.opt_level, case.scalars["ROWS"])


def test_the_bench_of_a_kernel_stands_beside_it(bench: Path) -> None:
    assert bench == bench_beside(bench.parent / "k.tl")
    assert bench_beside(bench.parent / "other.tl") is None


# --------------------------------------------------------------------------- values


def test_values_depend_on_the_seed_and_the_tensor_s_name_alone(bench: Path) -> None:
    first, again, other = load_bench(bench), load_bench(bench, sets={"scale": "2"}), load_bench(bench, seed=1)

    np.testing.assert_array_equal(first.arrays()["q"], again.arrays()["q"])
    assert not np.array_equal(first.arrays()["q"], other.arrays()["q"])
    # The same in every process, whatever PYTHONHASHSEED is.
    assert [77, 35, 2] == generator(0, "q").integers(0, 100, 3).tolist()


@pytest.mark.parametrize(
    ("init", "dtype", "expected"),
    [
        (Init("zeros"), dtypes.fp8e5, [0, 0, 0, 0]),
        (Init("ones"), dtypes.i1, [1, 1, 1, 1]),
        (Init("arange"), dtypes.u8, [0, 1, 2, 3]),
        (Init("fill", 2**64 - 1), dtypes.u64, [2**64 - 1] * 4),
        (Init("fill", -0.5), dtypes.bf16, [-0.5] * 4),
        (Init("randint", (5, 6)), dtypes.i8, [5] * 4),
        (Init("randint", (2**63, 2**63 + 1)), dtypes.u64, [2**63] * 4),
    ],
)
def test_initial_values(init: Init, dtype: dtypes.DType, expected: list[Any]) -> None:
    made = initial(init, (2, 2), dtype, generator(0, "x"))

    assert dtype.numpy == made.dtype
    assert expected == made.reshape(-1).tolist()


def test_drawn_numbers_are_where_they_should_be() -> None:
    normal = initial(Init("normal"), (10_000,), dtypes.fp32, generator(0, "x"))
    uniform = initial(Init("uniform"), (10_000,), dtypes.fp32, generator(0, "x"))

    assert abs(normal.mean()) < 0.05
    assert 0.95 < normal.std() < 1.05
    assert 0 <= uniform.min() < 0.01 < 0.99 < uniform.max() < 1


def test_values_come_from_files_too(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float64) / 3)
    text = """\
kernel: k.tl
tensors: {x: {shape: [2, 4], dtype: fp16, init: {npy: x.npy}}}
expect: {x: {npy: x.npy}}
"""
    case = loaded(tmp_path, text)

    assert (np.arange(4) / 3).astype(np.float16).tolist() == case.arrays()["x"][1].tolist()
    assert case.check(case.arrays())["x"]["ok"]


# --------------------------------------------------------------------------- references


def test_a_result_is_held_against_its_reference(bench: Path) -> None:
    case = load_bench(bench, "tiny")
    right = case.arrays()["q"].astype(np.float32)
    wrong = right.copy()
    wrong[1, 1] += 1

    assert {"o": {"ok": True, "max_abs_err": 0.0, "max_rel_err": 0.0}} == case.check({"o": right})
    assert not case.check({"o": wrong})["o"]["ok"]


def test_a_reference_is_rounded_once_as_the_device_rounds(tmp_path: Path) -> None:
    text = """\
kernel: k.tl
tensors:
  x: {shape: [1000], dtype: fp32, init: normal}
  y: {shape: [1000], dtype: fp32, init: normal}
expect: {y: x + y}
"""
    case = loaded(tmp_path, text)
    x, y = case.arrays()["x"], case.arrays()["y"]

    assert {"ok": True, "max_abs_err": 0.0, "max_rel_err": 0.0} == case.check({"y": x + y})["y"]


def test_comparing_knows_nan_and_infinity() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0])

    assert compare(values, values, 0, 0)["ok"]
    infinite = compare(np.array([np.inf]), np.ones(1), 1, 1)
    assert infinite.items() >= {"ok": False, "max_abs_err": None, "max_rel_err": None}.items()
    assert infinite["worst"] == {"index": [0], "value": "inf", "expected": 1.0}
    off = compare(np.array([[1.0, 2.0], [3.5, 0.1]]), np.array([[1.0, 2.0], [3.0, 0.0]]), 0.0, 0.0)
    assert (off["differing"], off["elements"], off["max_rel_err"]) == (2, 4, None)
    assert off["worst"] == {"index": [1, 0], "value": 3.5, "expected": 3.0}
    assert not compare(np.array([np.nan]), np.ones(1), 1, 1)["ok"]
    assert not compare(np.array([0.0]), np.array([np.nan]), 1, 1)["ok"]
    assert {"ok": True, "max_abs_err": 0.5, "max_rel_err": 0.25} == compare(np.array([2.5]), np.full(1, 2.0), 0.25, 0)
    assert compare(np.zeros((0, 3)), np.zeros((0, 3)), 0, 0)["ok"]


# --------------------------------------------------------------------------- what is wrong


WRONG = [
    (edited("kernel: k.tl::decode\n", ""), "E_YAML_MISSING_KEY", None),
    (edited("constexprs:", "constexpr:"), "E_YAML_UNKNOWN_KEY", 4),
    (edited("S: 6,", "S: 6, S: 7,"), "E_YAML_DUPLICATE_KEY", 5),
    (edited("opt: 0", "opt: 2"), "E_YAML_RANGE", 3),
    (edited("2 * G", "2 * "), "E_EXPRESSION_SYNTAX", 4),
    (edited("2 * G", "2 * H"), "E_EXPRESSION_NAME", 4),
    (edited("\"'relu'\"", "relu_"), "E_EXPRESSION_NAME", 4),
    (edited("S: 6,", "S: ROWS,"), "E_BENCH_CYCLE", None),
    (edited("S: 6,", "G: 6, S: 6,"), "E_BENCH_KEY", 5),
    (edited("dtype: fp16}}", "dtype: fp61}}"), "E_BENCH_VALUE", 5),
    (edited("value: 65500", "value: q"), "E_EXPRESSION_NAME", 5),
    (edited("[ROWS, D], dtype: fp16", "[ROWS, 1.5], dtype: fp16"), "E_BENCH_VALUE", 7),
    (edited("[ROWS, D], dtype: fp16", "[ROWS, -D], dtype: fp16"), "E_BENCH_VALUE", 7),
    (edited("[ROWS, D], dtype: fp16", "[2 ** 40, D], dtype: fp16"), "E_BENCH_VALUE", None),
    (edited("dtype: bf16", "dtype: bf61"), "E_BENCH_VALUE", None),
    (edited("init: uniform", "init: unifrom"), "E_BENCH_VALUE", 8),
    (edited("init: uniform", "init: {fil: 1}"), "E_BENCH_VALUE", 8),
    (edited("init: uniform", "init: {randint: [1]}"), "E_BENCH_VALUE", 8),
    (edited("init: uniform", "init: {npy: nowhere.npy}"), "E_BENCH_FILE", 8),
    (edited("init: uniform", "init: {value: arange(3)}"), "E_BENCH_VALUE", 8),
    (edited('init: {value: "S - 1 - arange(S)"}', "init: normal"), "E_BENCH_VALUE", 9),
    (edited('init: {value: "S - 1 - arange(S)"}', "init: {fill: 0.5}"), "E_BENCH_VALUE", 9),
    (edited('init: {value: "S - 1 - arange(S)"}', "init: {randint: [0, 2147483649]}"), "E_BENCH_VALUE", 9),
    (edited("place: replicate", "place: everywhere"), "E_PLACEMENT", 8),
    (edited("over: [cube, pe]", "over: [cubes]"), "E_PLACEMENT", 7),
    (edited("shard: 0", "shard: 5"), "E_PLACEMENT", 7),
    (edited("grid: [cdiv(ROWS, 2), G]", "grid: [1, 1, 1, 1]"), "E_GRID", 11),
    (edited("grid: [cdiv(ROWS, 2), G]", "grid: [-1]"), "E_BENCH_VALUE", 11),
    (edited("expect: {o:", "expect: {p:"), "E_BENCH_NAME", 12),
    (edited("q * w", "q * v"), "E_EXPRESSION_NAME", 12),
    (edited("q * w", "{file: x}"), "E_BENCH_VALUE", 12),
    (edited("rtol: 1e-2", "rtol: -1"), "E_YAML_RANGE", 13),
    (edited("tiny: {", "tiny: {kernel: x, "), "E_BENCH_KEY", 15),
    (edited("tiny: {topology: ahbm_1x1", "tiny: {topolgy: ahbm_1x1"), "E_YAML_UNKNOWN_KEY", 15),
    ("extends: b.yaml\nkernel: k.tl\n", "E_BENCH_CYCLE", 1),
    ("extends: nowhere.yaml\nkernel: k.tl\n", "E_YAML_FILE", None),
    ("", "E_YAML_EMPTY", None),
    ("- 1\n", "E_YAML_TYPE", 1),
    ("kernel: k.tl\ntensors: 3\n", "E_YAML_TYPE", 2),
]


@pytest.mark.parametrize(("text", "code", "line"), WRONG)
def test_each_mistake_has_its_code_and_line(tmp_path: Path, text: str, code: str, line: int | None) -> None:
    path = tmp_path / "b.yaml"
    path.write_text(text, encoding="utf-8")

    found = check_bench(path)

    assert code in {diagnostic.code for diagnostic in found}
    assert {diagnostic.code for diagnostic in found} <= errors.ERRORS.keys() | YAML_ERRORS.keys()
    if line is not None:
        lines = {d.primary.span.line for d in found if d.code == code and d.primary is not None}
        assert line in lines


def test_all_mistakes_of_a_file_are_told_together(tmp_path: Path) -> None:
    text = edited("dtype: bf16", "dtype: bf61").replace("2 * G", "2 * H").replace("q * w", "q * v")

    with pytest.raises(KernBenchError) as caught:
        loaded(tmp_path, text)

    codes = {"E_EXPRESSION_NAME", "E_BENCH_VALUE"}
    assert codes == {diagnostic.code for diagnostic in caught.value.diagnostics}
    assert 3 == len(caught.value.diagnostics)
    assert EXIT_INPUT == caught.value.exit_code


def test_a_long_chain_of_values_is_told(tmp_path: Path) -> None:
    chain = "".join(f"  a{i}: a{i + 1}\n" for i in range(400))

    with pytest.raises(KernBenchError) as caught:
        loaded(tmp_path, f"kernel: k.tl\nscalars:\n{chain}  a400: 1\n")

    assert {"E_BENCH_CYCLE"} == {diagnostic.code for diagnostic in caught.value.diagnostics}


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00", b"PK\x03\x04", b"text"])
def test_a_file_that_is_no_array_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)

    with pytest.raises(KernBenchError) as caught:
        loaded(tmp_path, "kernel: k.tl\ntensors: {x: {shape: [1], dtype: fp16, init: {npy: x.npy}}}\n")

    assert ["E_BENCH_FILE"] == [diagnostic.code for diagnostic in caught.value.diagnostics]


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)

    with pytest.raises(KernBenchError) as caught:
        loaded(tmp_path, "kernel: k.tl\ntensors: {x: {shape: [1], dtype: fp16, init: {npy: x.npy}}}\n")

    assert ["E_BENCH_FILE"] == [diagnostic.code for diagnostic in caught.value.diagnostics]


def test_a_reference_of_the_wrong_shape_is_told_where_it_stands(tmp_path: Path) -> None:
    case = loaded(tmp_path, edited("q * w", '"q[:1, :1, None] * ones(3)"'))

    with pytest.raises(KernBenchError) as caught:
        case.check({"o": np.zeros((8, 8), np.float32)})

    (diagnostic,) = caught.value.diagnostics
    assert ("E_EXPRESSION_VALUE", "expect.o") == (diagnostic.code, diagnostic.path)
    assert diagnostic.primary is not None and 12 == diagnostic.primary.span.line


@pytest.mark.parametrize(
    ("before", "after", "help"),
    [
        (
            "{rtol: 1e-2, atol: 1e-3}",
            "1e-3",
            "`tolerance` is {rtol: a number, atol: a number}: how far results may be off",
        ),
        ("rtol: 1e-2", "rtol: fine", "`rtol` is a number: the error allowed relative to the reference"),
        (
            "{topology: ahbm_1x1, scalars: {S: 1}",
            "{topology: 1, scalars: {S: 1}",
            "`topology` is a text, or null: the device",
        ),
        ("{shape: [S], dtype: i32", "{shape: S, dtype: i32", "`shape` is a list: the sides"),
        ("o: {shape: [ROWS, D], dtype: fp32}", "o: fp32", "`o` is {shape: a list, dtype: a text, init:"),
        ("{S: 1}", "1", "`scalars` is a mapping, or null: numbers"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_what_the_key_takes(
    tmp_path: Path, before: str, after: str, help: str
) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(edited(before, after), encoding="utf-8")

    (found,) = {each for each in check_bench(path) if each.code == "E_YAML_TYPE"}

    assert str(found.help).startswith(help)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cases: 3", "E_YAML_TYPE"),
        ("cases: {tiny: 3}", "E_BENCH_VALUE"),
        ("cases: {tiny: {cases: 3}}", "E_BENCH_KEY"),
        ("tensors: {a.b: 3}", "E_YAML_TYPE"),
    ],
)
def test_wrong_types_at_odd_places_are_told(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(f"kernel: k.tl\n{text}\n", encoding="utf-8")

    assert code in [each.code for each in check_bench(path)]
