"""The op log: order, canonical text, filtering, size."""

from __future__ import annotations

import io
import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim.op_log import KIND, OP_KINDS, RECORD_BYTES, OpLog

COMPONENTS = ["host", "sip0.cube0.pe0.pe_gemm", "sip0.cube0.pe0.pe_math"]


def a_log() -> OpLog:
    log = OpLog(COMPONENTS)
    request = log.intern("c/0")
    log.add(2000, 3500, 2, KIND["math"], log.intern("exp"), request, 1, 0, 0, 0, 128, log.intern("k.tl:3:5"))
    log.add(0, 1001, 1, KIND["gemm"], log.intern("gemm"), request, 0, 2, 1, 64, 99, params=log.intern_params({"m": 1}))
    return log


def text(log: OpLog) -> str:
    stream = io.StringIO()
    log.table().write_jsonl(stream)
    return stream.getvalue()


def test_records_come_back_in_order_of_time_whatever_the_order_of_writing() -> None:
    first, second = a_log().table()

    assert (
        first.op_kind, first.seq, first.t_start_ps, first.t_end_ps, first.component,
    ) == ("gemm", 0, 0, 1001, "sip0.cube0.pe0.pe_gemm")  # fmt: skip
    assert (
        second.op_name, second.seq, second.src, second.request, second.params,
    ) == ("exp", 1, "k.tl:3:5", "c/0", None)  # fmt: skip


def test_the_canonical_text_is_one_sorted_json_object_a_line() -> None:
    line = text(a_log()).splitlines()[0]

    expected = (
        '{"cmd":0,"component":"sip0.cube0.pe0.pe_gemm","flops":99,"nbytes":64,"op_kind":"gemm","op_name":"gemm",'
        '"params":{"m":1},"request":"c/0","seq":0,"src":null,"t_end_ns":1.001,"t_start_ns":0.000,"tile":2}'
    )
    assert expected == line
    assert sorted(json.loads(line)) == list(json.loads(line))


def test_a_place_with_quotes_is_escaped() -> None:
    log = OpLog(COMPONENTS)
    log.add(0, 1, 0, KIND["wait"], log.intern('a "name"\n'), 0)

    assert json.loads(text(log))["op_name"] == 'a "name"\n'


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 7), max_size=30), st.randoms())
def test_the_order_of_writing_never_shows(rows: list[tuple[int, ...]], random_: random.Random) -> None:
    def written(order: list[tuple[int, ...]]) -> str:
        log = OpLog([*COMPONENTS, "x"])
        log.intern("a"), log.intern("b"), log.intern("c")
        for start, length, component, kind, cmd, tile, stage in order:
            log.add(start, start + length, component, kind, 0, 0, cmd, tile, stage)
        return text(log)

    shuffled = list(rows)
    random_.shuffle(shuffled)

    assert written(rows) == written(shuffled)


def test_filters_select_by_kind_component_request_and_place() -> None:
    table = a_log().table()

    assert [r.op_kind for r in table.where(op_kind="gemm")] == ["gemm"]
    assert [r.seq for r in table.where(component="sip0.cube0.pe0.pe_math")] == [1]
    assert len(table.where(op_kind=("gemm", "math"), request="c/0")) == 2
    assert [r.seq for r in table.where(src="k.tl:3:5")] == [1]
    assert len(table.where(component="nobody")) == 0


def test_a_record_takes_at_most_64_bytes_and_chunks_join() -> None:
    log = OpLog(COMPONENTS)
    for index in range(20_000):
        log.add(20_000 - index, 20_001 - index, 0, 0, 0, 0, index)
    table = log.table()

    assert RECORD_BYTES <= 64
    assert list(range(19_999, -1, -1)) == table.column("cmd").tolist()
    assert table[0].t_start_ps == 1


def test_the_table_grows_with_the_log() -> None:
    log = a_log()
    before = len(log.table())
    log.add(5, 6, 0, 0, 0, 0)

    assert (before, len(log.table())) == (2, 3)


def test_rows_copied_at_once_are_records_like_others() -> None:
    log = a_log()
    log.repeat(log.table().rows, 0, 1, 2)

    assert [r.op_kind for r in log.table()] == ["gemm", "gemm", "math", "math"]


def test_every_kind_has_its_number() -> None:
    assert list(range(len(OP_KINDS))) == [KIND[name] for name in OP_KINDS]
