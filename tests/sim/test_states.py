"""Every field of what has a state is told in it, or there is a reason why not.

A field that is forgotten would make two instants look alike that are not, or stay behind where time skips. Whoever
adds one puts it where it belongs here, and into `state` and `skip` if it is told.
"""

from __future__ import annotations

import pytest

from kernbench.sim.clock import Clock
from kernbench.sim.composite_command import CompositeCommand
from kernbench.sim.dma_command import DmaCommand
from kernbench.sim.engines.pe_dma import Channel, Transfer
from kernbench.sim.engines.pe_gemm import PeGemm, StorePort
from kernbench.sim.engines.pe_math import PeMath
from kernbench.sim.engines.server import InOrderServer
from kernbench.sim.filling import Channel as Pool
from kernbench.sim.pe_command import Command, RepeatedCommand
from kernbench.sim.pe_cpu import PeCpu
from kernbench.sim.pe_scheduler import PeScheduler
from kernbench.sim.streams import Flow, FlowClass, Stream

# Why a field need not be told.
FIXED = "the same as long as the object lives"
SUM = "only added up; `Laps` counts it on"
LOAD = "what is worked on, which times do not depend on beside likeness; `load` and `take_load` move it"
INSTANT = "empty between instants, which is looked at"
HANDED_OVER = "as it was set up, where a command is handed over"
READ_AHEAD = "what the scout brings along"

FIELDS: dict[type, dict[str, str]] = {
    Clock: {
        "told": "env",
        INSTANT: "_dirty _marked",
        SUM: "events",
        FIXED: "_events_end limit_ps",  # of a run, within which skipping stays
        "of no meaning but its order": "_serial",
    },
    Stream: {
        "told": "due_at index moved own rate since targets",
        "follow from what is told": "bottom live serial top",
    },
    Flow: {
        "told": "entry flow_class in_own is_alone key nbytes remaining since",
        FIXED: "done",
    },
    FlowClass: {
        "told": "flows name",
        FIXED: "_alone channels",
        INSTANT: "changed fresh",
        SUM: "bytes_in bytes_out",
    },
    Pool: {
        "told": "exact index key level limits open stale taken",
        FIXED: "cap fixed_cap",
        "follow from the classes, which are told": "demands fed feeders limited self_fed",
        "found anew before it is used": "share",
    },
    Channel: {
        "told": "_asked _drain_start_ps _draining _free_ps _outstanding _queue _stalled_since",
        FIXED: "__weakref__ _issue_ps _kind _limit _network _part _stall_name _ways clock direction log on_room "
        "topology_index",
        INSTANT: "_inbox",
        SUM: "busy_ps",
    },
    Transfer: {
        "told": "origin ready_ps stage start_ps tile",
        FIXED: "done name_id params_id tag",
        LOAD: "part",
        "follow from the likeness of the command": "head_ps nbytes pools weights",
    },
    InOrderServer: {
        "told": "free_ps",
        FIXED: "__weakref__ _part clock log topology_index",
        INSTANT: "_inbox",
        SUM: "busy_ps",
    },
    PeGemm: {
        "told": "_fetch_free_ps _previous_ps",
        FIXED: "_fetch_name _gemm_name _tcm_index",
        SUM: "fetch_busy_ps",
    },
    StorePort: {FIXED: "_name"},
    PeMath: {},
    PeScheduler: {
        "told": "_composites _in_flight _lone _reads _room _sends _writes live",
        FIXED: "__weakref__ _clock _depth _dma _ipcq _issue _owner _tape topology_index",
    },
    Command: {
        "told": "alone conflicts footprint older strict waiters",
        FIXED: "is_composite span",
        LOAD: "hbm_reads hbm_writes origin program",
        "never of one under way": "complete",
    },
    RepeatedCommand: {},
    DmaCommand: {
        "told": "_addresses _form _left",
        FIXED: "_completion _parts moves_values strides",
        LOAD: "_buffer _resolved other",
        "never of one that can be skipped": "late",
    },
    CompositeCommand: {
        "told": "_fetching _form _holding _is_in_loop _outputs_stored _rehearsal _staged _start_ps _submitted",
        FIXED: "_completion _loop _parts _unwritten _windows rings",
        LOAD: "_values",
        "of those with operands in HBM, which are not skipped": "_pending_writes _places _streams",
    },
    PeCpu: {
        FIXED: "__weakref__ _clock _code _context _cycle_ps _done _epoch _laps _log _services _ways exec_start_ps "
        "parts request rings scheduler topology_index turns windows",
        HANDED_OVER: "_aborted _blocked _failed_ps _fault _horizon_ps _in_memory _pending _scalar_count "
        "_scalar_start _stopped may_repeat time_ps",
        READ_AHEAD: "number program registers scalar_src turn",
        SUM: "busy_ps commands",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_field_is_told_or_has_a_reason(kind: type) -> None:
    said = [name for names in FIELDS[kind].values() for name in names.split()]
    slots: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]

    assert sorted(said) == sorted(slots)
