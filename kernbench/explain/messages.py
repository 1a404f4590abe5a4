"""Errors of the host's messages as such: their JSON, their fields, and rules between fields (ADR-0012)."""

from __future__ import annotations

from kernbench.explain.model import Explanation, Messages

_READ = (
    '{"msg_type": "MemoryRead", "correlation_id": "c", "request_id": "1", "target_device": "sip:0", '
    '"src_sip": 0, "src_cube": 0, "src_pe": 0, "src_pa": 0, "nbytes": 64}'
)
_WRITE = (
    '{"msg_type": "MemoryWrite", "correlation_id": "c", "request_id": "1", "target_device": "sip:0", '
    '"dst_sip": 0, "dst_cube": 0, "dst_pe": 0, "dst_pa": 0, "nbytes": 64, "src_kind": "pattern", '
    '"pattern": {"pattern_kind": "zero"}}'
)


def _read(before: str, after: str) -> Messages:
    assert before in _READ
    return Messages(_READ.replace(before, after))


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_MESSAGE_JSON",
        story="""
            A file of messages has one JSON object a line. The line is no JSON, or JSON that two readers would
            understand differently: a key twice in one object, or a bare NaN.
        """,
        wrong=_read('"nbytes": 64', '"nbytes": NaN'),
        says='the message: found NaN, which JSON does not have; write "NaN", expected one JSON object a line',
        right=Messages(_READ),
    ),
    Explanation(
        code="E_MESSAGE_MISSING",
        story="""
            A field that the message's type must have is not there. `kernbench list messages` prints the fields, and
            `--json` their schema.
        """,
        wrong=_read(', "nbytes": 64', ""),
        says="`nbytes`: found nothing, expected a value",
        right=Messages(_READ),
    ),
    Explanation(
        code="E_MESSAGE_UNKNOWN_FIELD",
        story="""
            A field that the message's type does not have. An optional field that is misspelled would otherwise be
            ignored without a word.
        """,
        wrong=_read('"nbytes": 64', '"nbytes": 64, "dst_kidn": "discard"'),
        says="`dst_kidn`: found an unknown field, expected a field of MemoryRead",
        right=_read('"nbytes": 64', '"nbytes": 64, "dst_kind": "discard"'),
    ),
    Explanation(
        code="E_MESSAGE_TYPE",
        story="A field holds a value of another type than it takes: a text for a number, or a float for an address.",
        wrong=_read('"nbytes": 64', '"nbytes": "64"'),
        says='`nbytes`: found "64", expected an integer',
        right=Messages(_READ),
    ),
    Explanation(
        code="E_MESSAGE_VALUE",
        story="""
            A field's value is of the right type and outside what the field may hold: a negative size, a device name
            that is not `sip:N`, a word that is none of the choices.
        """,
        wrong=_read('"nbytes": 64', '"nbytes": -64'),
        says="`nbytes`: found -64, expected an integer from 0 to 281474976710655",
        right=Messages(_READ),
    ),
    Explanation(
        code="E_MESSAGE_RULE",
        story="""
            Each field is right by itself and two of them contradict each other: a pattern is named and not given,
            shards of a tensor overlap or leave a gap, a layout has another size than its shards.
        """,
        wrong=Messages(_WRITE.replace(', "pattern": {"pattern_kind": "zero"}', "")),
        says="`pattern`: found null, expected a pattern, as src_kind is pattern",
        right=Messages(_WRITE),
    ),
    Explanation(
        code="E_MESSAGE_DUPLICATE_ID",
        story="""
            A response is matched to its request by `(correlation_id, request_id)`, so no two requests have the same
            pair. Requests of one correlation are served in their order, those of different ones together.
        """,
        wrong=Messages(f"{_READ}\n{_READ}"),
        says='`request_id`: found "1" of "c", as in line 1, expected an id of its own',
        right=Messages(f"{_READ}\n" + _READ.replace('"request_id": "1"', '"request_id": "2"')),
    ),
)
