"""What each model of the device assumes, where it is exact, and where it is not.

The figures here stand in tests and documents too; `tests/cli/test_explain_topics.py` holds them against each other.
"""

from __future__ import annotations

from kernbench.explain.model import Topic

TOPICS: tuple[Topic, ...] = (
    Topic(
        "network",
        "routers, links and UCIe connections, shared by whole transfers",
        """
        A transfer first takes its head latency, the sum of `overhead_ns` of every node on the way and of `distance_mm
        × ns_per_mm` of every wire, which occupies nothing. Then it is a flow that occupies all links of its path
        until it has drained. Flows that share a link share it max-min fairly, and rates change only when a flow
        starts or ends. Paths have the least latency; between cubes they go X first, then Y.

        - Exact: a lone transfer takes overhead + wire + bytes / least bandwidth, to the picosecond (`kernbench probe`
          shows the residual), and two equal flows over one link end together after ⌈2 × bytes / bandwidth⌉.
        - Exact, too: saturation of meshes as the least fair rate.
        - Not there: packets, virtual channels, head-of-line blocking. Mean latency under uniform traffic on a 4 × 4
          mesh against a flit-level reference, at 10, 50 and 80 % load: +5 %, +4 %, −23 % with 16 flits a packet,
          +0 %, −37 %, −66 % with 64. So it is good to a few per cent while links are lightly used, and optimistic
          under heavy load.

        `docs/trust.md` has the sources; `--hops` writes each hop of a run's transfers to its log.
        """,
    ),
    Topic(
        "hbm",
        "one slice of the stack a PE: a bandwidth for both directions, and a latency",
        """
        Each PE has a slice of its cube's stack behind a controller (`hbm_ctrl.peN`). Reads and writes of all who come
        to a slice share its bandwidth `cube.hbm.bw_gbs`, which is what refresh leaves of the peak: 147.2 GB/s × 92.3 %
        = 135.9 GB/s by default. `cube.hbm.overhead_ns` is the latency of a row miss, 48.1 ns, once a transfer.

        - A transfer that is one run of bytes costs the bytes that it moves.
        - One of several runs is charged with whole accesses of 64 bytes, and at least 128 bytes for each page of 1024
          that it touches, since a slice can open only so many pages in a time (tFAW). Random single fp32 elements so
          run at 1/32 of the rate, runs of 64 bytes far apart at 1/2, aligned runs of 128 bytes at the whole.
        - Links carry the bytes themselves; only the slice is charged with more.
        - Not there: banks, open rows from one transfer to the next, the turn of the bus between reads and writes.

        Each PE's own slice is nearest, and other slices are reached over the network. The comments of
        `topologies/ahbm_4x4.yaml` derive the figures.
        """,
    ),
    Topic(
        "gemm",
        "PE_GEMM: tiles of a native shape, one after the other",
        """
        A product runs as tiles of `pe_gemm.tile`, in the order m, n, k with k fastest; edge tiles are smaller and cost
        what they cost. Of each tile, DMA reads the operands that lie in HBM, FETCH takes them from TCM to the engine
        (`tcm.bytes_per_cycle`), GEMM multiplies, and after the last k STORE takes the product out.

        - `dataflow: ideal` takes ⌈m × k × n / macs_per_cycle⌉ cycles: an upper bound of any array of that size.
        - `ws`, `os` and `is` take the cycles of a systolic array of `rows` × `cols`, fill and drain counted, as
          SCALE-Sim does. They are exact for one array; there are no sparse or pipelined ones.
        - Two operand sets: the fetch of a tile waits until the product before the last is done, so fetch and product
          overlap. Whichever takes longer sets the pace.
        - The accumulator is fp32 (int32 for integers) and inside the engine; `out` is written once, after its
          epilogue. Where two float types meet, FETCH rounds the wider to the narrower.
        - HBM operands have a ring of `tcm.tile_buffers` slots; a tile that is still in its ring is not read again.
        """,
    ),
    Topic(
        "math",
        "PE_MATH: lanes, a start-up, and a cost class an op",
        """
        An op on n elements (of its largest operand) takes `startup_cycles` + ⌈n / lanes⌉ × the cycles of its cost
        class: by default 4 + ⌈n / 128⌉, and twice the second term for transcendental ones. `kernbench list micro-ops
        --json` has the class of each op. Ops of one composite follow each other without a gap.

        - Reductions cost what they read, whatever the axis.
        - Not there: bank conflicts in TCM, narrower types that run faster, latency from one dependent op to the next
          beyond the start-up.
        """,
    ),
    Topic(
        "dma",
        "PE_DMA: a read and a write channel, with several transfers under way",
        """
        A channel is occupied by a transfer for `issue_ns` only, which overlaps its latency. Up to `outstanding`
        transfers of a channel are under way at once, and they drain in the order of issue, one at a time. When that
        many are, the next one stalls, and the log says so.

        - A read goes to memory as a request without data and comes back with it; memory is sampled, and written, at
          the end of the drain.
        - A stream of transfers takes max(issue, bytes / bandwidth) each, a lone one latency and drain: the larger the
          blocks, the nearer to the bandwidth. Half of it is reached at latency × bandwidth bytes.
        """,
    ),
    Topic(
        "dispatch",
        "what it costs PE_CPU to hand a command to PE_SCHEDULER",
        """
        Every command costs `dispatch.fixed_ns` + its size / `dispatch.bytes_per_ns`, by default 32 ns and 1.5 bytes a
        ns. The size is that of the encoded command without names and lines: 8 bytes, 8 an op, 8 a handle, 2 an entry
        of `rw_handles`; so names change no time. PE_CPU does nothing else in that time.

        - That is why one composite of many ops costs less than many commands of one (ADR-0065). A kernel that is bound
          by `dispatch` wants larger blocks or composites.
        - The queue takes `pe_cpu.queue_depth` commands. When it is full PE_CPU waits, which is logged as a stall.
        - Scalar instructions cost a cycle each; reading a scalar out of TCM waits until it is computed.
        """,
    ),
    Topic(
        "hazards",
        "which commands of a PE wait for which",
        """
        Commands wait for each other only where they touch the same bytes: a read after a write, a write after a read,
        a write after a write, in TCM or in HBM.

        - Loads and stores have queues of their own. One waits for exactly those older commands that it conflicts with,
          so a prefetch of the next tile does not stop the present one.
        - Composites issue in order. One that conflicts with a composite in flight waits until all earlier ones are
          complete, and nothing overtakes it (ADR-0065 D6.3); `pe_scheduler.issue: rw_aware` lets those through that
          conflict with nothing. Composites that do not conflict run at once and share the engines' queues.
        - Buffers that a loop writes rotate, so that the next trip need not wait for the present one's readers.

        What waited, and for what, stands in the log as `stall`. Programs of one launch are not ordered against each
        other at all: see E_UNORDERED_STORES.
        """,
    ),
    Topic(
        "modes",
        "data mode and timing mode: one timing, with values or without",
        """
        `--mode data` computes every value with NumPy, at the simulated moment of its completion. `--mode timing`
        computes only what times depend on: addresses, masks and branches, and what they are made of. The logs of both
        are equal byte by byte.

        - Timing mode is for large sweeps; its run has no results to check, and `check` is empty.
        - Where a time depends on a value that went through memory, timing mode refuses (E_TIMING_NEEDS_DATA), naming
          the value and its line, rather than to guess.
        - Values may differ in the last bits between machines and builds of NumPy; times and logs never do.
        """,
    ),
    Topic(
        "launch",
        "from the host's message to the first instruction",
        """
        A launch travels to IO_CPU with its bytes. IO_CPU waits until the PEs are idle and have the code (it is read
        once a PE, and stays there), then sets one instant at which all of them start: now, and the longest way to any
        of them (ADR-0009 D5). Every PE of a launch has the same `t_start_ns` in the log.

        - `total_ns` counts from submission to completion, `pe_exec_ns` from that instant to each PE's end.
        - One completion comes back. With `fail_fast` the first failure aborts the others; `collect_all` tells all.
        """,
    ),
    Topic(
        "utilization",
        "how busy an engine or a link was",
        """
        Of an engine: the time in which it worked, over the time from the barrier to the end of the slowest PE, over
        all PEs of the launch. An engine that works on one PE of eight is at an eighth. Of a link or an HBM slice: the
        bytes that it carried, over what its bandwidth could have carried in that time.

        - DMA channels count while a transfer drains, not in its latency.
        - Bytes of a slice are those moved, so a slice that is bound by scattered accesses shows less than 100 %.
        - Transfers of the host outside of the launch do not count.
        - null stands where no time passed.
        """,
    ),
    Topic(
        "bound_by",
        "what to look at first when a run should be faster",
        """
        The engine or link with the highest utilization, with its share of its peak, if that is at least half. If
        nothing is busy half of the time, the largest term of `terms_ns`, which is then a latency or a wait: too few
        bytes or flops are under way at once.

        - A link, or `dma_read`: the kernel is bound by memory. Read less, or reuse more of what is in TCM.
        - `gemm`, `math`: it is bound by compute, and near the best that this device can do.
        - `dispatch`: commands are too small; use larger blocks or composites.
        - `fetch`, `store`: TCM's port sets the pace; the tiles are too small for the engine.
        """,
    ),
    Topic(
        "terms",
        "the terms that add up to the time of a launch, exactly",
        """
        `terms_ns` follows the launch from submission to completion along the PE that ended last (of equals the first):
        the way to IO_CPU, waiting for PEs and code, the way to the PEs, what that PE did, and the way back. Terms of
        0 are left out. `kernbench explain terms_ns.NAME` tells each.

        - Within the PE, each moment counts once, for the most telling thing that goes on: gemm before math before dma
          before tcm before dispatch before scalar before send_recv before stall before wait. So `dma` is the time of
          DMA that no computation hides, and not all time in which DMA works.
        - `idle` is what is left: latency inside the PE, in which no record is open.
        - The sum is exact to the picosecond; a run in which it is not is a fault of ours.
        """,
    ),
)
