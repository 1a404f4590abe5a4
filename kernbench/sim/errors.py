"""The error codes of the simulator, each with what it means in one line.

`kernbench list errors` and `explain` print this table. Does not know where an error is raised.
"""

from __future__ import annotations

from kernbench.diagnostics import Diagnostic
from kernbench.yaml_source import YAML_ERRORS

ERRORS: dict[str, str] = {
    **YAML_ERRORS,
    "E_TOPO_NOT_FOUND": "there is no topology of that name or at that path",
    "E_TOPO_EXTENDS": "`extends` names a topology that cannot be used, or that extends itself",
    "E_TOPO_SCHEMA": "the file does not say `schema: kernbench.topology/1` or `extends:`",
    "E_TOPO_COUNTS": "two places of a topology disagree on a number of things",
    "E_TOPO_PLACE": "a topology names a router, cube or side that it does not have",
    "E_TOPO_OVERRIDE": "`overrides` names a node or a link that the topology does not have",
    "E_TOPO_LINK_ENDS": "the two ends of one link are described differently",
    "E_TOPO_GEOMETRY": "the distances of a topology do not fit in one another",
    "E_TOPO_PRECISION": "a quantity is finer than what the simulator counts in",
    "E_TOPO_DATAFLOW": "a systolic dataflow of `pe_gemm` needs `rows` and `cols`",
    "E_TOPO_SIZE": "a topology has more nodes than the simulator takes",
    "E_ROUTE_MISSING": "there is no path between two nodes that need one",
    "E_PA_UNMAPPED": "a physical address belongs to no memory of this device",
    "E_PA_TAG_MISMATCH": "a physical address and the (sip, cube, pe) tags beside it name different places",
    "E_PA_STRADDLES": "a range of physical addresses runs over the end of its memory",
    # host requests
    "E_DEVICE_UNKNOWN": "a message is for a package that the device does not have",
    "E_BUFFER_MISSING": "the host buffer that a message names did not come with it",
    "E_BUFFER_SIZE": "the host buffer of a message has another size than its `nbytes`",
    "E_BUFFER_CHANGED": "the bytes of a host buffer have another content hash than its name says",
    "E_LAUNCH_TARGET": "a launch names no PE, or one that the device does not have",
    "E_LAUNCH_ARGUMENTS": "a launch has other arguments than its kernel takes",
    "E_LAUNCH_DTYPE": "an argument of a launch has another dtype than its kernel takes",
    "E_LAUNCH_SHARDS": "the shards of a PE do not make up a tensor of their own",
    "E_KERNEL_UNKNOWN": "the device has no kernel of that name",
    "E_BINARY_NOT_DEPLOYED": "nobody wrote a kernel where a launch says that its binary is",
    "E_BINARY_CORRUPT": "the bytes where a launch says that its binary is are no valid binary",
    # kernels at work
    "E_BAD_POINTER": "a kernel uses an address that belongs to no tensor of its launch",
    "E_OUT_OF_BOUNDS": "a kernel reaches outside of a tensor",
    "E_READ_ONLY": "a kernel stores to a tensor that it may only read",
    "E_UNINITIALISED_READ": "a kernel reads memory that nobody wrote (a warning unless asked for)",
    "E_UNORDERED_LOAD": "a program reads what another of the launch stores (a warning unless asked for)",
    "E_UNORDERED_STORES": "two programs of a launch store to the same bytes (a warning unless asked for)",
    "E_INT32_OFFSET": "an offset that a kernel computes in int32 does not fit in it",
    "E_KERNEL_ASSERT": "an assertion of a kernel failed",
    "E_LOOP_STEP": "the step of a loop is 0 at run time",
    "E_TCM_BOUNDS": "a block does not lie in a PE's scratchpad",
    "E_K_GROUPS": "an operand of a K_TILE op has groups along k that a tile of the device would cross",
    "E_GEMM_DTYPE": "PE_GEMM does not multiply values of that type",
    "E_TIMING_NEEDS_DATA": "an address, a mask or a branch depends on data that timing mode does not compute",
    "E_MESSAGE_PE": "a kernel sends to, or receives from, a PE that is not in its launch",
    "E_MESSAGE_MISMATCH": "a block that is received has another shape or type than the one that was sent",
    "E_LATE_LAUNCH": "a launch reached a PE after the barrier at which it should have started",
    # the end of a run
    "E_DEADLOCK": "nothing is left to happen and somebody still waits",
    "E_TIME_LIMIT": "a run takes more simulated time than it may",
    "E_COMMAND_LIMIT": "the PEs dispatch more commands than they may",
    "E_WALL_LIMIT": "a run takes longer than it may",
}


def error(code: str, message: str, *, path: str | None = None, help: str | None = None) -> Diagnostic:
    """A diagnostic of a host request."""
    assert code in ERRORS, f"{code} is not in the table of simulator errors"
    return Diagnostic(code, message, path=path, help=help)
