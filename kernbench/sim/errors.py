"""The error codes of the simulator, each with what it means in one line.

`kernbench list errors` and `explain` print this table. Does not know where an error is raised.
"""

from __future__ import annotations

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
}
