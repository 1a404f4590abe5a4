"""Requests as JSON Lines and back. The text is hostile: it ends in requests, or in all that is wrong with it.

Does not know what a request means, nor what its fields may hold (see `messages.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, Label, Span
from kernbench.message_fields import Problem, Record, build, describe, pick, tag_value
from kernbench.messages import REQUESTS, KernelLaunch, MemoryRead, MemoryWrite, Request

_REQUESTS_BY_TYPE: dict[str, type[Record]] = {tag_value(cls, "msg_type"): cls for cls in REQUESTS}


def request_from_json(value: object) -> Request:
    """The request that a JSON object says; `msg_type` names its type."""
    problems: list[Problem] = []
    request = _request(value, problems)
    if request is None:
        raise KernBenchError([problem.diagnostic() for problem in problems], EXIT_INPUT)
    return request


def _request(value: object, problems: list[Problem]) -> Request | None:
    if not isinstance(value, Mapping):
        problems.append(Problem("E_MESSAGE_JSON", "", describe(value), "an object"))
        return None
    cls = pick(_REQUESTS_BY_TYPE, "msg_type", value, "", problems)
    made = None if cls is None else build(cls, value, "", problems)
    assert made is None or isinstance(made, MemoryWrite | MemoryRead | KernelLaunch)
    return made


def write_requests(requests: Iterable[Request]) -> str:
    """JSON Lines, one request a line, that `read_requests` reads back."""
    return "".join(json.dumps(request.to_json(), allow_nan=False) + "\n" for request in requests)


def read_requests(text: str, file: str) -> tuple[Request, ...]:
    """The requests of a JSON Lines text, blank lines skipped; all errors of the text are told together."""
    requests: list[Request] = []
    diagnostics: list[Diagnostic] = []
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        problems: list[Problem] = []
        request = _request_of_line(line, problems)
        if request is not None:
            _check_unused(request, seen, number, problems)
            requests.append(request)
        span = Span(file, number, 1, number, len(line) + 1)
        diagnostics.extend(_at_line(problem, span) for problem in problems)
    if diagnostics:
        raise KernBenchError(diagnostics, EXIT_INPUT)
    return tuple(requests)


def _check_unused(request: Request, seen: dict[tuple[str, str], int], number: int, problems: list[Problem]) -> None:
    first = seen.setdefault(request.key, number)
    if first != number:
        found = f"{describe(request.request_id)} of {describe(request.correlation_id)}, as in line {first}"
        problems.append(Problem("E_MESSAGE_DUPLICATE_ID", "request_id", found, "an id of its own"))


def _at_line(problem: Problem, span: Span) -> Diagnostic:
    plain = problem.diagnostic()
    return Diagnostic(plain.code, plain.message, Label(span, ""), help=plain.help, path=plain.path)


class _BadJsonError(ValueError):
    """A JSON text that Python would read and we do not."""


def _request_of_line(line: str, problems: list[Problem]) -> Request | None:
    try:
        value = json.loads(line, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        found = f"a text that is no JSON ({error.msg.lower()} at column {error.colno})"
    except _BadJsonError as error:
        found = str(error)
    except ValueError:
        found = "a number with too many digits"
    except RecursionError:
        found = "an object nested too deep"
    else:
        return _request(value, problems)
    problems.append(Problem("E_MESSAGE_JSON", "", found, "one JSON object a line"))
    return None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise _BadJsonError(f"the key {describe(key)} twice in one object")
        made[key] = value
    return made


def _no_constant(name: str) -> Any:
    raise _BadJsonError(f"{name}, which JSON does not have; write {describe(name)}")
