"""Errors of kernels at work: what a device finds wrong while it runs one, and what ends a run."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, KernelRun, Python, file_text

_N = """
    kernel: k.tl
    scalars: {{n: {n}}}
    tensors: {{x_ptr: {{shape: [{size}], dtype: fp32, init: ones}}}}
    grid: [{grid}]
"""


def _bench(n: int = 64, size: int = 64, grid: int = 1) -> str:
    return _N.format(n=n, size=size, grid=grid)


_MASKED = """
    @triton.jit
    def k(x_ptr, n):
        i = tl.program_id(0) * 64 + tl.arange(0, 64)
        tl.store(x_ptr + i, 2.0, mask=i < n)
"""
_GOES_ON = """
    @triton.jit
    def k(x_ptr, n):
        i = 0
        while i < n:
            tl.store(x_ptr + i % 64, 2.0)
            i += 1
"""
_PING = """
    @triton.jit
    def k(x_ptr):
        me = tl.pe_index()
        x = tl.load(x_ptr + tl.arange(0, 64))
        if me == 0:
            tl.send(x, to=1)
        if me == 1:
            y = tl.recv((64,), tl.float32, source=0)
            tl.store(x_ptr, tl.sum(y, axis=0))
"""


def _between_pes(kernel: str) -> CommandLine:
    """One program a PE, on a device with several."""
    bench = "kernel: k.tl\ntensors: {x_ptr: {shape: [2048], dtype: fp32, init: ones, place: {shard: 0}}}\n"
    return CommandLine("kernbench run k.tl -t ahbm_2x2", {"k.tl": file_text(kernel), "k.yaml": bench})


_LIMITED = 'device = kb.open("ahbm_1x1", limits=Limits({limit}, look_every=10))'


def _limited(limit: str) -> Python:
    """A run of a loop of 1000 stores under a limit."""
    return Python(
        f"""
        from kernbench.sim.engine import Limits

        {_LIMITED.format(limit=limit)}
        run = device.run(kb.compile("k.tl"), x_ptr=np.ones(64, np.float32), n=1000)
        """,
        _GOES_ON,
    )


_BACKWARDS = """
    @triton.jit
    def k(x_ptr, n):
        at = tl.program_id(0) * 64 + tl.arange(0, 64)
        tl.store(x_ptr + at, tl.load(x_ptr + 127 - at))
"""

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_OUT_OF_BOUNDS",
        story="""
            A load or store reaches outside of its tensor. On other machines it would read or overwrite whatever lies
            there; here it ends the run, with the bytes, the tensor and its dimension, the PE and the kernel's line.
            Most often a mask is missing in the last block.
        """,
        wrong=KernelRun(_MASKED.replace(", mask=i < n", ""), _bench(60, 60)),
        says="sip0.cube0.pe0: bytes 0 to 255 of tensor `x_ptr` are out of bounds, it holds 240 bytes",
        right=KernelRun(_MASKED, _bench(60, 60)),
    ),
    Explanation(
        code="E_BAD_POINTER",
        story="""
            A kernel's pointers count within its tensors. This one was made of a number, or moved so far that it lies
            in none of the launch's tensors.
        """,
        wrong=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                p = tl.cast(n, tl.pointer_type(tl.float32))
                tl.store(p, 2.0)
            """,
            _bench(),
        ),
        says="sip0.cube0.pe0: address 0x40 is near the null pointer",
        right=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, 2.0)
            """,
            _bench(),
        ),
    ),
    Explanation(
        code="E_READ_ONLY",
        story="""
            In a launch with a grid each program reads the copy of a replicated tensor that is nearest to its PE. A
            store would change one of the copies and no other, so it is refused; shard the tensor, or place it on one
            PE.
        """,
        wrong=CommandLine(
            "kernbench run k.tl -t ahbm_2x2",
            {"k.tl": file_text(_MASKED), "k.yaml": _bench().replace("init: ones", "init: ones, place: replicate")},
        ),
        says="sip0.cube0.pe0: tensor `x_ptr` is stored to, it is replicated, and a launch with a grid has one "
        "copy only",
        right=CommandLine("kernbench run k.tl -t ahbm_2x2", {"k.tl": file_text(_MASKED), "k.yaml": _bench()}),
    ),
    Explanation(
        code="E_UNINITIALISED_READ",
        story="""
            A warning, or with `--sanitize=error` a fault: a kernel reads memory that nobody wrote. Such bytes count
            as 0, which a real device does not promise. It takes messages by hand, since a run writes every array.
        """,
        wrong=Python(
            """
            from kernbench.sim.engine import GraphEngine

            run = kb.open("ahbm_1x1").run(kb.compile("k.tl"), x_ptr=np.ones(64, np.float32))
            engine = GraphEngine(kb.load_topology("ahbm_1x1"))
            for message in run.sent.requests[1:]:  # without the first, which writes x_ptr
                engine.submit(message, run.sent.buffers)
            engine.run()
            """,
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 64)), axis=0))
            """,
        ),
        says="reads bytes of tensor `x_ptr` that nobody wrote; they count as 0",
        right=Python(
            """
            from kernbench.sim.engine import GraphEngine

            run = kb.open("ahbm_1x1").run(kb.compile("k.tl"), x_ptr=np.ones(64, np.float32))
            engine = GraphEngine(kb.load_topology("ahbm_1x1"))
            for message in run.sent.requests:
                engine.submit(message, run.sent.buffers)
            engine.run()
            """,
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 64)), axis=0))
            """,
        ),
    ),
    Explanation(
        code="E_UNORDERED_STORES",
        story="""
            A warning, or with `--sanitize=error` a fault: two programs of one launch store to the same bytes, and
            nothing says which comes last. Public kernels do it on purpose now and then, with equal values; where the
            values differ, the result depends on the machine.
        """,
        wrong=KernelRun(_MASKED.replace("tl.program_id(0) * 64 + ", ""), _bench(64, 128, 2)),
        says="two programs of a launch store to the same bytes, and nothing orders them",
        right=KernelRun(_MASKED, _bench(128, 128, 2)),
    ),
    Explanation(
        code="E_UNORDERED_LOAD",
        story="""
            A warning, or with `--sanitize=error` a fault: a program of a launch reads bytes that another one stores,
            and nothing says which comes first. Kernels with atomics or messages are not looked at, since these may
            order their programs.
        """,
        wrong=KernelRun(_BACKWARDS, _bench(128, 128, 2)),
        says="a program reads bytes that another one of the launch stores, and nothing orders them",
        right=KernelRun(_BACKWARDS.replace("127 - at", "at"), _bench(128, 128, 2)),
    ),
    Explanation(
        code="E_INT32_OFFSET",
        story="""
            An offset is computed in int32, as in Triton, and leaves its range: on a GPU it wraps around and the
            kernel reads somewhere else. Widen one side first, for example `rows.to(tl.int64) * stride`.
        """,
        wrong=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                i = tl.arange(0, 64)
                tl.store(x_ptr + i * n, 2.0)
            """,
            _bench(1 << 28),
        ),
        says="sip0.cube0.pe0: element offset 16911433728 does not fit in int32",
        right=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                i = tl.arange(0, 64)
                tl.store(x_ptr + i * n, 2.0)
            """,
            _bench(1),
        ),
    ),
    Explanation(
        code="E_KERNEL_ASSERT",
        story="""
            A `tl.device_assert` or `assert` whose condition is known at run time only was false on a PE, or a `raise`
            was reached there. The message has the PE and the line.
            Only scalars are checked: what a block says would cost a reduction, so `tl.device_assert` of a block does
            nothing, as in Triton without its debug mode. To check one, assert
            `tl.min(condition.to(tl.int32), axis=0) != 0`.
        """,
        wrong=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.device_assert(n <= 64, "n is at most 64")
                tl.store(x_ptr, 2.0)
            """,
            _bench(65),
        ),
        says="sip0.cube0.pe0: assertion failed: n is at most 64",
        right=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.device_assert(n <= 64, "n is at most 64")
                tl.store(x_ptr, 2.0)
            """,
            _bench(64),
        ),
    ),
    Explanation(
        code="E_LOOP_STEP",
        story="The step of a `range` came out as 0 at run time, so the loop would never reach its end.",
        wrong=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                for i in range(0, 64, n):
                    tl.store(x_ptr + i, 2.0)
            """,
            _bench(0),
        ),
        says="sip0.cube0.pe0: the step of a loop is 0",
        right=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                for i in range(0, 64, n):
                    tl.store(x_ptr + i, 2.0)
            """,
            _bench(16),
        ),
    ),
    Explanation(
        code="E_TCM_BOUNDS",
        story="""
            A block of the program does not lie in the PE's TCM. The compiler places every block for a
            target, so the program was compiled for a device with more of it than this one has.
        """,
        wrong=Python(
            """
            from kernbench.sim.topology import load_topology_text

            small = "extends: ahbm_1x1\\nname: small\\npe: {tcm: {capacity_bytes: 4096}}\\n"
            device = kb.open(load_topology_text(small))
            kernel = kb.compile("k.tl", target="ahbm_1x1")
            run = device.run(kernel, x_ptr=np.ones(4096, np.float32))
            """,
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 4096)
                tl.store(x_ptr + i, tl.load(x_ptr + i) + 1.0)
            """,
        ),
        says="sip0.cube0.pe0: the kernel needs 32768 bytes of TCM, a PE has 4096",
        right=Python(
            """
            device = kb.open("ahbm_1x1")
            kernel = kb.compile("k.tl", target=device)
            run = device.run(kernel, x_ptr=np.ones(4096, np.float32))
            """,
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 4096)
                tl.store(x_ptr + i, tl.load(x_ptr + i) + 1.0)
            """,
        ),
    ),
    Explanation(
        code="E_TIMING_NEEDS_DATA",
        story="""
            Timing mode computes only what times depend on: addresses, masks and branches, and what they are made of,
            back to the inputs. It does not follow values through memory, so what a kernel has stored and loads again
            is not known to it. Keep such a value in a block, or use data mode.
        """,
        wrong=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                i = tl.arange(0, 64)
                tl.store(x_ptr + i, tl.load(x_ptr + i) * 2.0)
                if tl.load(x_ptr) > 1.0:
                    tl.store(x_ptr + i, 0.0)
            """,
            _bench(),
            "--mode timing",
        ),
        says="sip0.cube0.pe0: a branch depends on a value, computed at k.tl:10:8, which timing mode does not "
        "compute; data mode does",
        right=KernelRun(
            """
            @triton.jit
            def k(x_ptr, n):
                i = tl.arange(0, 64)
                first = tl.load(x_ptr) * 2.0
                tl.store(x_ptr + i, tl.load(x_ptr + i) * 2.0)
                if first > 1.0:
                    tl.store(x_ptr + i, 0.0)
            """,
            _bench(),
            "--mode timing",
        ),
    ),
    Explanation(
        code="E_LATE_LAUNCH",
        story="""
            All PEs of a launch start at one instant, which IO_CPU sets as now and the longest way to any of them
            (ADR-0009 D5). A launch that reaches a PE after that instant is a fault, and never made up for in silence.
        """,
        no_example="IO_CPU waits as long as the farthest PE needs, so no topology that loads has a late one",
    ),
    Explanation(
        code="E_DEADLOCK",
        story="""
            Nothing is left to happen, and somebody still waits. The message names every waiter, what it waits for and
            its line. Idle engines wait for nothing and are not named.
        """,
        wrong=_between_pes(_PING.replace("tl.send(x, to=1)", "pass")),
        says="nothing is left to happen and 1 wait: sip0.cube0.pe1.pe_cpu waits for a block from sip0.cube0.pe0",
        right=_between_pes(_PING),
    ),
    Explanation(
        code="E_MESSAGE_PE",
        story="""
            `tl.send` and `tl.recv` name a PE of the same launch, by its index (`tl.pe_index()`) or by (sip, cube, pe).
            No other runs the kernel, so nobody would take the message.
        """,
        wrong=_between_pes(_PING.replace("to=1", "to=99")),
        says="sip0.cube0.pe0: PE 99 of the launch is named, which has 32",
        right=_between_pes(_PING),
    ),
    Explanation(
        code="E_MESSAGE_MISMATCH",
        story="""
            What a PE sends and what the other receives have one shape and one type: a block is moved as it is, and
            nobody would notice that it is read in another form.
        """,
        wrong=_between_pes(_PING.replace("tl.recv((64,)", "tl.recv((32,)")),
        says="sip0.cube0.pe1: a block of 32 fp32 is to be received, the next one is 64 fp32, sent by "
        "sip0.cube0.pe0 at k.tl:11:9",
        right=_between_pes(_PING),
    ),
    Explanation(
        code="E_TIME_LIMIT",
        story="""
            The run took more simulated time than `--max-time-ns` allows. Each instruction of a loop takes at least a
            cycle, so this ends an endless one, too. The log up to then is kept.
        """,
        wrong=KernelRun(_GOES_ON, _bench(1000), "--max-time-ns 5000"),
        says="the run is not over after 5000 ns of simulated time; sip0.cube0.pe0.pe_cpu is at k.tl:10:9",
        right=KernelRun(_GOES_ON, _bench(10), "--max-time-ns 500000"),
    ),
    Explanation(
        code="E_COMMAND_LIMIT",
        story="The PEs have dispatched more commands than the run's limits allow.",
        wrong=_limited("max_commands=100"),
        says="the PEs have dispatched more than 100 commands; sip0.cube0.pe0.pe_cpu is at k.tl:10:9",
        right=_limited("max_commands=10000"),
    ),
    Explanation(
        code="E_WALL_LIMIT",
        story="""
            The run took longer than its limits allow, by the clock on the wall. It is the one limit whose point in
            simulated time is not the same on every machine.
        """,
        wrong=_limited("max_wall_s=0.0"),
        says="the run is not over after 0 s; sip0.cube0.pe0.pe_cpu is at k.tl:10:9",
        right=_limited("max_wall_s=1000.0"),
    ),
)
