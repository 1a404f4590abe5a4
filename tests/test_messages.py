"""The host contract: every field of every message is dropped, retyped and corrupted, and told by its path."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import messages
from kernbench.diagnostics import EXIT_INPUT, KernBenchError
from kernbench.dtypes import ALL as ALL_DTYPES
from kernbench.message_fields import Record, fields_of
from kernbench.message_text import read_requests, request_from_json, write_requests
from kernbench.messages import (
    PARTS,
    REQUESTS,
    Completion,
    KernelLaunch,
    KernelRef,
    MemoryRead,
    MemoryWrite,
    Pattern,
    Response,
    ScalarArg,
    TensorArg,
    TensorLayout,
    TensorPAMap,
    TensorShard,
    json_schema,
    scalar_carrier,
)

Json = dict[str, Any]
HASH = "sha256:" + "0123456789abcdef" * 4


def shard(pe: int, offset: int, nbytes: int = 64, pa: int | None = None) -> TensorShard:
    return TensorShard(
        sip=0, cube=0, pe=pe, pa=(pe << 40) + 4096 if pa is None else pa, nbytes=nbytes, offset_bytes=offset
    )


def write(**changes: Any) -> MemoryWrite:
    fields: Json = {
        "correlation_id": "run:0",
        "request_id": "7",
        "target_device": "sip:0",
        "timestamp_tag": "t",
        "dst_sip": 0,
        "dst_cube": 3,
        "dst_pe": 5,
        "dst_pa": 1 << 41,
        "nbytes": 64,
        "src_kind": "pattern",
        "pattern": Pattern(pattern_kind="fill_u16", value=17),
        "dst_mem_kind": "HBM",
        "debug_label": "x",
    }
    return MemoryWrite(**(fields | changes))


def read() -> MemoryRead:
    return MemoryRead(
        correlation_id="run:0",
        request_id="8",
        target_device="sip:1",
        src_sip=1,
        src_cube=0,
        src_pe=0,
        src_pa=64,
        nbytes=0,
        dst_kind="discard",
    )


def launch(**changes: Any) -> KernelLaunch:
    fields: Json = {
        "correlation_id": "run:0",
        "request_id": "9",
        "target_device": "sip:0",
        "kernel_ref": KernelRef(
            name="k", kind="deployed", deploy_pa=64, deploy_sip=0, deploy_cube=0, deploy_pe=0, nbytes_code=100
        ),
        "args": (
            TensorArg(tensor_pa_map=TensorPAMap(shards=(shard(0, 0), shard(1, 64)))),
            ScalarArg(dtype="fp16", value=65500),
        ),
        "grid": {"x": 4, "y": 2},
        "meta": {
            "targets": [[0, 0, 1], [0, 0, 0]],
            "params": ["x", "n"],
            "layouts": [{"shape": [2, 32], "dim": 1, "dtype": "fp16"}, None],
            "symbols": HASH,
            "note": {"free": [1, None, "text"]},
        },
    }
    return KernelLaunch(**(fields | changes))


SAMPLES: dict[str, Record] = {
    "write": write(),
    "buffer": write(src_kind="host_buffer_ref", pattern=None, host_buffer=HASH),
    "read": read(),
    "launch": launch(),
    "response": Response(
        correlation_id="a",
        request_id="b",
        completion=Completion(ok=False, error_code="E_PA_UNMAPPED", error_message="no"),
        checksum=HASH,
    ),
}


def paths_of(error: KernBenchError) -> set[str]:
    return {diagnostic.path or "" for diagnostic in error.diagnostics}


# --------------------------------------------------------------------------- every field in turn


def places(record: Record, value: Json, path: str = "") -> Iterator[tuple[str, Json, str, Record]]:
    """(path, the object that holds the field, its name, the record) of every field, nested ones too."""
    for spec in fields_of(type(record)):
        here = f"{path}.{spec.name}" if path else spec.name
        yield here, value, spec.name, record
        inner, inner_json = getattr(record, spec.name), value[spec.name]
        if isinstance(inner, Record):
            yield from places(inner, inner_json, here)
        if isinstance(inner, tuple):
            for index, (item, item_json) in enumerate(zip(inner, inner_json, strict=True)):
                if isinstance(item, Record):
                    yield from places(item, item_json, f"{here}[{index}]")


ALL_FIELDS = [(kind, path) for kind, sample in SAMPLES.items() for path, *_ in places(sample, sample.to_json())]
# One value of each JSON type; a field must refuse all those that are not its own.
JUNK: tuple[Any, ...] = ([], {}, "", "no such word", -1, 1.5, True, [[]], 1 << 200, "\x00")


def corrupted(kind: str, path: str) -> tuple[Json, Json, str, Record]:
    """A copy of a sample, and the object in it that holds the field at `path`."""
    sample = SAMPLES[kind]
    value = copy.deepcopy(sample.to_json())
    holder, name, record = next((h, n, r) for p, h, n, r in places(sample, value) if p == path)
    return value, holder, name, record


def read_back(kind: str, value: Json) -> Record:
    return type(SAMPLES[kind]).from_json(value)


@pytest.mark.parametrize(("kind", "path"), ALL_FIELDS)
def test_a_dropped_field_is_told_by_its_path_or_takes_its_default(kind: str, path: str) -> None:
    value, holder, name, record = corrupted(kind, path)
    del holder[name]
    spec = next(spec for spec in fields_of(type(record)) if spec.name == name)

    try:
        made = read_back(kind, value)
    except KernBenchError as error:
        assert {path} == paths_of(error)
        assert EXIT_INPUT == error.exit_code
        missing = {"E_MESSAGE_MISSING"} == {diagnostic.code for diagnostic in error.diagnostics}
        assert missing if spec.required else not missing  # without its default a rule may be broken
    else:
        assert not spec.required
        assert [spec.default] == [h[n] for p, h, n, _ in places(made, made.to_json()) if p == path]


@pytest.mark.parametrize(("kind", "path"), ALL_FIELDS)
def test_junk_in_a_field_is_told_by_that_field_s_path(kind: str, path: str) -> None:
    refused = 0
    for junk in JUNK:
        value, holder, name, _ = corrupted(kind, path)
        holder[name] = junk
        try:
            read_back(kind, value)
        except KernBenchError as error:
            refused += 1
            assert any(found == path or found.startswith((f"{path}.", f"{path}[")) for found in paths_of(error)) or (
                # a value that is right by itself may contradict a neighbour, which is then the one named
                {"E_MESSAGE_RULE", "E_MESSAGE_VALUE"} >= {d.code for d in error.diagnostics}
            )

    assert refused >= 3, "this field takes nearly anything"


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_unknown_field_is_told_with_the_nearest_name(kind: str) -> None:
    value = SAMPLES[kind].to_json() | {"correlation_idd": "a"}

    with pytest.raises(KernBenchError) as caught:
        read_back(kind, value)

    (diagnostic,) = caught.value.diagnostics
    assert ("E_MESSAGE_UNKNOWN_FIELD", "correlation_idd") == (diagnostic.code, diagnostic.path)
    assert diagnostic.help == "did you mean `correlation_id`?"


def test_all_errors_of_a_message_are_told_together() -> None:
    value = launch().to_json()
    value["args"][0]["tensor_pa_map"]["shards"][1]["pa"] = -1
    value["args"][1]["dtype"] = "fp61"
    del value["kernel_ref"]["name"]

    with pytest.raises(KernBenchError) as caught:
        request_from_json(value)

    expected = {"args[0].tensor_pa_map.shards[1].pa", "args[1].dtype", "kernel_ref.name"}
    assert expected == paths_of(caught.value)


# --------------------------------------------------------------------------- the rules between fields


def refused(make: Any) -> tuple[str, str]:
    """(code, path) of the first thing that is wrong."""
    with pytest.raises(KernBenchError) as caught:
        make()
    first = caught.value.diagnostics[0]
    return first.code, first.path or ""


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"pattern": None}, "pattern"),
        ({"src_kind": "host_buffer_ref"}, "pattern"),
        ({"host_buffer": HASH}, "host_buffer"),
        ({"nbytes": 63}, "nbytes"),
    ],
)
def test_a_write_s_source_fits_its_kind(changes: Json, path: str) -> None:
    assert ("E_MESSAGE_RULE", path) == refused(lambda: write(**changes))


def test_a_write_of_nothing_is_fine() -> None:
    assert 0 == write(nbytes=0).nbytes


def test_a_buffer_need_not_be_named() -> None:
    assert write(src_kind="host_buffer_ref", pattern=None).host_buffer is None


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("fill_u8", 255, 256),
        ("fill_u8", 0, -1),
        ("fill_u16", 65535, 65536),
        ("fill_u32", 2**32 - 1, 2**32),
        ("fill_u32", 7, 7.5),
        ("fill_fp16", 65519.9, 65520),
        ("fill_fp16", -65519.9, -1e300),
        ("fill_fp32", 3.4028235e38, 3.5e38),
    ],
)
def test_a_fill_value_fits_its_type(kind: Any, good: float, bad: float) -> None:
    assert good == Pattern(pattern_kind=kind, value=good).value
    assert ("E_MESSAGE_VALUE", "value") == refused(lambda: Pattern(pattern_kind=kind, value=bad))
    assert ("E_MESSAGE_RULE", "value") == refused(lambda: Pattern(pattern_kind=kind))


def test_zero_ignores_its_value() -> None:
    assert b"\0" == Pattern(pattern_kind="zero", value=1e300).unit


def test_the_bytes_of_each_fill() -> None:
    units = {
        "fill_u8": b"\x01",
        "fill_u16": b"\x01\x00",
        "fill_u32": b"\x01\x00\x00\x00",
        "fill_fp16": b"\x00\x3c",
        "fill_fp32": b"\x00\x00\x80\x3f",
    }

    assert units == {kind: Pattern(pattern_kind=kind, value=1).unit for kind in units}  # type: ignore[arg-type]


def test_a_deployed_kernel_has_an_address_and_a_builtin_needs_none() -> None:
    place: Json = {"name": "k", "deploy_sip": 0, "deploy_cube": 0, "deploy_pe": 0, "nbytes_code": 1}

    assert ("E_MESSAGE_RULE", "deploy_pa") == refused(lambda: KernelRef(kind="deployed", **place))
    assert KernelRef(kind="builtin", **place).deploy_pa is None


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param([(0, 64), (32, 64)], id="overlap"),
        pytest.param([(0, 64), (96, 64)], id="gap"),
        pytest.param([(64, 64)], id="no beginning"),
        pytest.param([(0, 64), (0, 32)], id="copies of two sizes"),
        pytest.param([], id="no shard"),
    ],
)
def test_shards_are_a_partition_or_full_copies(offsets: list[tuple[int, int]]) -> None:
    shards = tuple(shard(pe, offset, nbytes) for pe, (offset, nbytes) in enumerate(offsets))

    code, path = refused(lambda: TensorPAMap(shards=shards))

    assert "E_MESSAGE_RULE" == code
    assert path.startswith("shards")


def test_partitions_may_come_in_any_order_and_copies_are_whole() -> None:
    split = TensorPAMap(shards=(shard(1, 64), shard(0, 0), shard(2, 128, 0)))
    copies = TensorPAMap(shards=(shard(1, 0), shard(0, 0)))

    assert (128, False) == (split.nbytes, split.is_replicated)
    assert (64, True) == (copies.nbytes, copies.is_replicated)


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("i32", 2**31 - 1, 2**31),
        ("i32", -(2**31), 1.0),
        ("i64", -(2**63), 2**63),
        ("fp16", 65500, 65520),
        ("fp32", -math.inf, 1e39),
        ("fp32", 1, True),
        ("i32", 1, True),
        ("bool", False, 0),
    ],
)
def test_a_scalar_fits_its_dtype(dtype: Any, good: Any, bad: Any) -> None:
    assert good == ScalarArg(dtype=dtype, value=good).value
    assert ("E_MESSAGE_VALUE", "value") == refused(lambda: ScalarArg(dtype=dtype, value=bad))


def test_every_element_type_has_a_carrier() -> None:
    assert {"i32", "i64", "fp16", "fp32", "bool"} == {scalar_carrier(dtype) for dtype in ALL_DTYPES}


def test_a_completion_has_an_error_exactly_where_it_failed() -> None:
    assert ("E_MESSAGE_RULE", "error_code") == refused(lambda: Completion(ok=False))
    assert ("E_MESSAGE_RULE", "error_code") == refused(lambda: Completion(ok=True, error_code="E_X"))
    assert ("E_MESSAGE_RULE", "error_message") == refused(lambda: Completion(ok=True, error_message="x"))
    assert Completion(ok=False, error_code="E_X").error_message is None


@pytest.mark.parametrize(
    ("grid", "path"),
    [
        ({}, "grid.x"),
        ({"y": 1}, "grid.x"),
        ({"x": 1, "w": 1}, "grid.w"),
        ({"x": -1}, "grid.x"),
        ({"x": True}, "grid.x"),
        ({"x": 1, "z": 2.0}, "grid.z"),
        ({"x": 2**31}, "grid.x"),
    ],
)
def test_a_grid_has_one_to_three_axes(grid: Json, path: str) -> None:
    assert path == refused(lambda: launch(grid=grid))[1]


def test_the_shape_of_a_grid() -> None:
    assert (4, 2, 1) == launch().grid_shape
    assert (0, 1, 1) == launch(grid={"x": 0}).grid_shape
    assert launch(grid=None).grid_shape is None


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("targets", [], "meta.targets"),
        ("targets", [[0, 0]], "meta.targets[0]"),
        ("targets", [[0, 0, -1]], "meta.targets[0]"),
        ("targets", [[0, 0, 1], [0, 0, 1]], "meta.targets[1]"),
        ("params", ["x"], "meta.params"),
        ("params", ["x", "x"], "meta.params"),
        ("params", "xn", "meta.params"),
        ("layouts", [None], "meta.layouts"),
        ("layouts", [None, {"shape": [1], "dtype": "i1"}], "meta.layouts[1]"),
        ("layouts", [{"shape": [2, 31], "dtype": "fp16"}, None], "meta.layouts[0]"),
        ("layouts", [{"shape": [64], "dim": 1, "dtype": "fp16"}, None], "meta.layouts[0].dim"),
        ("layouts", [{"shape": [64], "dtype": "half"}, None], "meta.layouts[0].dtype"),
        ("layouts", [{"shape": [64]}, None], "meta.layouts[0].dtype"),
        ("symbols", "0", "meta.symbols"),
    ],
)
def test_what_the_device_reads_of_meta_is_checked(key: str, value: Any, path: str) -> None:
    assert path == refused(lambda: launch(meta={key: value}))[1]


def test_targets_are_the_union_of_the_tags_unless_meta_says_otherwise() -> None:
    assert ((0, 0, 1), (0, 0, 0)) == launch().targets
    assert ((0, 0, 0), (0, 0, 1)) == launch(meta=None).targets


def test_tensors_may_be_the_same_memory_but_not_overlap() -> None:
    def arg(pa: int) -> TensorArg:
        return TensorArg(tensor_pa_map=TensorPAMap(shards=(shard(0, 0, 64, pa),)))

    in_place = launch(args=(arg(4096), arg(4096)), meta=None)
    code, path = refused(lambda: launch(args=(arg(4096), arg(4128)), meta=None))

    assert in_place.args[0] == in_place.args[1]
    assert ("E_MESSAGE_RULE", "args[1].tensor_pa_map.shards[0].pa") == (code, path)


def test_two_copies_in_one_place_are_refused() -> None:
    tensor = TensorPAMap(shards=(shard(0, 0, 64, 4096), shard(0, 0, 64, 4096)))

    code, _ = refused(lambda: launch(args=(TensorArg(tensor_pa_map=tensor),), meta=None))

    assert "E_MESSAGE_RULE" == code


# --------------------------------------------------------------------------- layouts


def test_placed_strides_have_the_sharded_dimension_outermost() -> None:
    layout = TensorLayout(shape=(2, 3, 5), dim=1, dtype="fp16")

    assert (5, 10, 1) == layout.placed_strides
    assert not layout.is_row_major
    assert TensorLayout(shape=(1, 3, 5), dim=1, dtype="fp16").is_row_major
    assert (15, 5, 1) == TensorLayout(shape=(2, 3, 5), dtype="i64").placed_strides


def test_a_tensor_without_a_layout_is_a_run_of_bytes() -> None:
    layout = launch(meta=None).layout(0)

    assert layout == TensorLayout(shape=(128,), dim=0, dtype="u8")
    assert launch().layout(1) is None


def test_the_size_on_the_wire_knows_no_labels() -> None:
    assert launch().wire_bytes == launch(debug_label="a long label", meta=None, timestamp_tag="t").wire_bytes
    assert launch().wire_bytes < launch(args=(*launch().args, ScalarArg(dtype="i32", value=1)), meta=None).wire_bytes


# --------------------------------------------------------------------------- immutable, and JSON in and out


def test_messages_are_immutable() -> None:
    message = launch()

    with pytest.raises(dataclasses.FrozenInstanceError):
        message.grid = None  # type: ignore[misc]
    with pytest.raises(TypeError):
        message.meta["targets"] = ()  # type: ignore[index]


@pytest.mark.parametrize("kind", SAMPLES)
def test_json_reads_back_to_the_same_message(kind: str) -> None:
    text = json.dumps(SAMPLES[kind].to_json(), allow_nan=False)

    assert SAMPLES[kind] == read_back(kind, json.loads(text))


def test_numbers_that_json_lacks_are_written_as_words() -> None:
    for value, word in ((math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN")):
        made = ScalarArg(dtype="fp32", value=value).to_json()
        assert word == made["value"]
        assert str(value) == str(ScalarArg.from_json(made).value)


def test_defaults_are_those_of_the_contract() -> None:
    least = {k: v for k, v in write().to_json().items() if k not in ("timestamp_tag", "dst_mem_kind", "debug_label")}
    del least["host_buffer"]

    made = request_from_json(least)

    assert isinstance(made, MemoryWrite)
    assert (None, "AUTO", None, None) == (made.timestamp_tag, made.dst_mem_kind, made.debug_label, made.host_buffer)
    assert "fail_fast" == launch().failure_policy
    assert "host_sink" == MemoryRead.from_json({k: v for k, v in read().to_json().items() if k != "dst_kind"}).dst_kind


def test_the_schema_lists_every_field_and_what_is_required() -> None:
    schema = json_schema()
    json.dumps(schema, allow_nan=False)

    for cls in (*REQUESTS, Response, *PARTS):
        described = schema["$defs"][cls.__name__]
        specs = fields_of(cls)
        assert [spec.name for spec in specs] == list(described["properties"])
        assert [spec.name for spec in specs if spec.required] == described["required"]
    assert {"const", "enum"} & schema["$defs"]["MemoryWrite"]["properties"]["src_kind"].keys()


# --------------------------------------------------------------------------- files of messages


def test_a_file_of_messages_reads_back() -> None:
    sent = (write(), read(), launch())

    assert sent == read_requests(write_requests(sent), "m.jsonl")
    assert sent == read_requests("\n" + write_requests(sent).replace("\n", "\r\n") + "\n", "m.jsonl")


def test_every_bad_line_is_told_with_its_place() -> None:
    good = json.dumps(read().to_json())
    lines = [
        good,
        "{",
        "[]",
        good,
        '{"msg_type": "MemoryWright"}',
        "{}",
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"msg_type": "MemoryRead", "nbytes": "1"}',
        "[" * 100_000,
        '{"a": ' + "1" * 5000 + "}",
    ]

    with pytest.raises(KernBenchError) as caught:
        read_requests("\n".join(lines), "m.jsonl")

    found = [(d.primary.span.line if d.primary else 0, d.code, d.path) for d in caught.value.diagnostics]
    assert (2, "E_MESSAGE_JSON", None) in found
    assert (3, "E_MESSAGE_JSON", None) in found
    assert (4, "E_MESSAGE_DUPLICATE_ID", "request_id") in found
    assert (5, "E_MESSAGE_VALUE", "msg_type") in found
    assert (6, "E_MESSAGE_MISSING", "msg_type") in found
    assert (7, "E_MESSAGE_JSON", None) in found
    assert (8, "E_MESSAGE_JSON", None) in found
    assert (9, "E_MESSAGE_TYPE", "nbytes") in found
    assert (9, "E_MESSAGE_MISSING", "src_pa") in found
    assert (10, "E_MESSAGE_JSON", None) in found
    assert (11, "E_MESSAGE_JSON", None) in found
    assert not any(line == 1 for line, _, _ in found)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL_FIELDS), JSON_VALUES)
def test_no_value_in_any_field_ends_in_a_traceback(place: tuple[str, str], junk: Any) -> None:
    kind, path = place
    value, holder, name, _ = corrupted(kind, path)
    holder[name] = junk

    try:
        made = read_back(kind, value)
    except KernBenchError as error:
        assert error.diagnostics
        assert {diagnostic.code for diagnostic in error.diagnostics} <= messages.ERRORS.keys()
    else:
        assert made == read_back(kind, made.to_json()) or "nan" in repr(made)
