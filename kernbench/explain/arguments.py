"""Errors of a run's arguments: arrays, numbers, the grid, where tensors are placed, and what comes back."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, Python, file_text

_SCALE = """
    @triton.jit
    def scale(x_ptr, n, factor: tl.constexpr = 2.0):
        i = tl.arange(0, 64)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(x_ptr + i, x * factor, mask=i < n)
"""
_OPEN = 'kernel = kb.compile("k.tl")\ndevice = kb.open("ahbm_1x1")\n'


def _run(arguments: str, before: str = "x = np.ones(64, np.float32)\n") -> Python:
    """A run of the kernel above with these arguments."""
    return Python(f"{_OPEN}{before}run = device.run(kernel, {arguments})", _SCALE)


def _copy(arguments: str) -> Python:
    """A run of a kernel of two tensors; `x` has 65 elements."""
    text = """
        @triton.jit
        def copy(x_ptr, y_ptr):
            i = tl.arange(0, 64)
            tl.store(y_ptr + i, tl.load(x_ptr + i))
    """
    return Python(f"{_OPEN}x = np.ones(65, np.float32)\nrun = device.run(kernel, {arguments})", text)


_RIGHT = _run("x_ptr=x, n=64")
_SMALL = {
    "k.tl": file_text(_SCALE),
    "small.yaml": "extends: ahbm_1x1\nname: small\ncube: {hbm: {capacity_bytes: 32768}}\n",
}
_BENCH = """
    kernel: k.tl
    scalars: {{n: 64}}
    tensors:
      x_ptr: {{shape: [{n}], dtype: fp32, init: ones}}
"""

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_ARG_UNKNOWN",
        story="""
            Arguments are given by the names of the kernel's parameters, and this is none of them. The nearest is
            offered. The same code tells of a result that is asked for by a name that no array has.
        """,
        wrong=_run("x=x, x_ptr=x, n=64"),
        says="kernel `scale` has no parameter `x`",
        right=_RIGHT,
    ),
    Explanation(
        code="E_ARG_MISSING",
        story="""
            Each parameter without a default needs an argument: the bench file's `tensors` and `scalars`, or a
            keyword of `device.run`.
        """,
        wrong=_run("x_ptr=x"),
        says="kernel `scale` has no argument for its parameter `n`",
        right=_RIGHT,
    ),
    Explanation(
        code="E_ARG_TYPE",
        story="""
            A kernel takes NumPy arrays, numbers, bools, `None` and descriptors of arrays. Lists are no arrays: their
            element type would be a guess. A float does not become an integer behind one's back either.
        """,
        wrong=_run("x_ptr=[1.0, 2.0], n=64"),
        says="argument `x_ptr` is a list, which no kernel takes",
        right=_RIGHT,
    ),
    Explanation(
        code="E_ARG_DTYPE",
        story="""
            Device memory holds the element types of `kernbench.dtypes`: no complex numbers, no texts, no objects. An
            array keeps its type on the way there unless `dtypes=` says otherwise, which only floats can.
        """,
        wrong=_run("x_ptr=x, n=64", "x = np.ones(64, np.complex64)\n"),
        says="argument `x_ptr` is an array of complex64, which no device stores",
        right=_RIGHT,
    ),
    Explanation(
        code="E_ARG_RANGE",
        story="""
            A number goes to the device in the type that the kernel was compiled for, and does not fit it. Wrapping
            it around would run the kernel on another number than was asked.
        """,
        wrong=_run("x_ptr=x, n=2**70"),
        says="argument `n` is 1180591620717411303424, beyond 64 bits with a sign",
        right=_RIGHT,
    ),
    Explanation(
        code="E_ARG_STRIDES",
        story="""
            A view of an array is sent as the stretch of memory that it spans, and the kernel walks it by its strides
            (pass them as arguments). That works for steps upwards that are whole elements; a reversed view has none.
        """,
        wrong=_run("x_ptr=x[::-1], n=64"),
        says="argument `x_ptr` has strides of (-4,) bytes, which no pointer and steps upwards follow",
        right=_run("x_ptr=np.ascontiguousarray(x[::-1]), n=64"),
    ),
    Explanation(
        code="E_ARG_FORM",
        story="""
            `constexprs`, `signature`, `args`, `placements` and `dtypes` are mappings from the names of parameters; the
            kernel of `device.run` is what `kb.compile` gives; `dump_after` names passes.
        """,
        wrong=Python('kernel = kb.compile("k.tl", constexprs=5)', _SCALE),
        says="`constexprs` is 5",
        right=Python('kernel = kb.compile("k.tl", constexprs={})', _SCALE),
    ),
    Explanation(
        code="E_ARG_TWICE",
        story="""
            One argument is given in two ways: in `args` and as a keyword, or as a constexpr when the kernel was
            compiled and again in the run. Which one counts would be a guess.
        """,
        wrong=_run('args={"x_ptr": x, "n": 64}, n=32'),
        says="`n` is given twice",
        right=_run('args={"x_ptr": x, "n": 64}'),
    ),
    Explanation(
        code="E_ARG_SHARED",
        story="""
            One array that is given for two parameters is one tensor, and both see what is stored to it. Two views
            that overlap without being the same elements in the same order, or one array with two placements or
            casts, would be two tensors on the device; a store to one of them would be missing in the other.
        """,
        wrong=_copy("x_ptr=x[1:], y_ptr=x[:-1]"),
        says="`x_ptr` and `y_ptr` share memory that the kernel stores to, and are not one tensor",
        right=_copy("x_ptr=x[1:].copy(), y_ptr=x[:-1]"),
    ),
    Explanation(
        code="E_GRID",
        story="""
            A grid is one to three numbers of programs, as in Triton, or a function of the constexprs that gives them.
            Without a grid one program runs on each PE, on its own shard of each tensor.
        """,
        wrong=_run("x_ptr=x, n=64, grid=(1, 1, 1, 1)"),
        says="a grid has 4 axes, expected one to three",
        right=_run("x_ptr=x, n=64, grid=(1, 1, 1)"),
    ),
    Explanation(
        code="E_MODE",
        story="""
            `data` computes every value with NumPy; `timing` moves none and gives the same times, faster. There is no
            third mode, and no difference between the logs of the two.
        """,
        wrong=_run('x_ptr=x, n=64, mode="dta"'),
        says="the mode is 'dta'",
        right=_run('x_ptr=x, n=64, mode="data"'),
    ),
    Explanation(
        code="E_OPTION_UNKNOWN",
        story="""
            `kb.open` takes a topology and the engine's options: `hops`, `sanitize`, `limits`, `on_progress`. What a
            run needs (mode, grid, placements) is given to `device.run`.
        """,
        wrong=Python('device = kb.open("ahbm_1x1", mode="timing")'),
        says="a device has no option `mode`",
        right=Python('device = kb.open("ahbm_1x1", sanitize="off")'),
    ),
    Explanation(
        code="E_OPTION_VALUE",
        story="An option of `kb.open` has a value that it may not have; the help line says which it may.",
        wrong=Python('device = kb.open("ahbm_1x1", sanitize="fatal")'),
        says="`sanitize` is 'fatal'",
        right=Python('device = kb.open("ahbm_1x1", sanitize="error")'),
    ),
    Explanation(
        code="E_OPT_LEVEL",
        story="""
            Level 0 makes one command of each block operation, in source order; level 1, the default, fuses chains of
            them and issues loads early. Values are equal at both.
        """,
        wrong=Python('kernel = kb.compile("k.tl", opt_level=3)', _SCALE),
        says="the optimisation level is 3, expected 0 or 1",
        right=Python('kernel = kb.compile("k.tl", opt_level=1)', _SCALE),
    ),
    Explanation(
        code="E_KERNEL_UNREADABLE",
        story="The file that `kb.compile` is to read is not there, or may not be read.",
        wrong=Python('kernel = kb.compile("kernels/sofmax.tl")'),
        says="cannot read `kernels/sofmax.tl`: no such file or directory",
        right=Python('kernel = kb.compile("k.tl")', _SCALE),
    ),
    Explanation(
        code="E_DUMP_DIR",
        story="The dumps of passes are written as numbered files into a folder, which cannot be made or written to.",
        wrong=Python(
            'kernel = kb.compile("k.tl", signature={"x_ptr": "*fp32", "n": "i32"},\n'
            '                    dump_after="lower", dump_dir="k.tl/dumps")',
            _SCALE,
        ),
        says="cannot write `k.tl/dumps/02_lower.txt`: Not a directory",
        right=Python(
            'kernel = kb.compile("k.tl", signature={"x_ptr": "*fp32", "n": "i32"},\n'
            '                    dump_after="lower", dump_dir="dumps")',
            _SCALE,
        ),
    ),
    Explanation(
        code="E_NO_DATA",
        story="""
            `run["y_ptr"]` is an array that the device computed. In timing mode nothing is computed, so there is none;
            and a run that failed has none that anybody should trust.
        """,
        wrong=Python(
            f'{_OPEN}x = np.ones(64, np.float32)\nrun = device.run(kernel, x_ptr=x, n=64, mode="timing")\n'
            'result = run["x_ptr"]',
            _SCALE,
        ),
        says="the run of `scale` has no values of `x_ptr`: it was made in timing mode",
        right=Python(
            f'{_OPEN}x = np.ones(64, np.float32)\nrun = device.run(kernel, x_ptr=x, n=64, mode="data")\n'
            'result = run["x_ptr"]',
            _SCALE,
        ),
    ),
    Explanation(
        code="E_PLACEMENT",
        story="""
            A placement says where a tensor lies: `kb.replicate()`, `kb.shard(dim, over)`, `kb.on(sip, cube, pe)`. It
            names a dimension that the tensor does not have, an axis that a device does not have (they are sip, cube
            and pe), or a PE beyond the last one.
        """,
        wrong=_run('x_ptr=x, n=64, placements={"x_ptr": kb.on(0, 0, 9)}'),
        says="pe 9 of a placement is not below 1, what the device has",
        right=_run('x_ptr=x, n=64, placements={"x_ptr": kb.on(0, 0, 0)}'),
    ),
    Explanation(
        code="E_HBM_FULL",
        story="""
            A PE's slice of HBM (`cube.hbm.capacity_bytes`) holds the shards of all tensors that are placed there, and
            the kernel's code. A replicated tensor takes its full size in every slice; sharding it over more PEs takes
            less in each.
        """,
        wrong=CommandLine("kernbench run k.tl -t small.yaml", {**_SMALL, "k.yaml": _BENCH.format(n=16384)}),
        says="tensor `x_ptr` needs 65536 bytes in the HBM slice of sip0.cube0.pe0, 32768 are free",
        right=CommandLine("kernbench run k.tl -t small.yaml", {**_SMALL, "k.yaml": _BENCH.format(n=64)}),
    ),
    Explanation(
        code="W_COPIES_DIFFER",
        story="""
            A warning. A replicated tensor is one copy a PE, and nothing keeps the copies equal: the launch left
            different values in them, and the first copy's are given back. Shard the tensor, or place it on one PE,
            where one result is wanted.
        """,
        wrong=Python(
            'kernel = kb.compile("k.tl")\ndevice = kb.open("ahbm_2x2")\nx = np.ones(64, np.float32)\n'
            'run = device.run(kernel, x_ptr=x, placements={"x_ptr": kb.replicate()})',
            "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, tl.pe_index() * 1.0)\n",
        ),
        says="the copies of `x_ptr` differ after the launch; the first one's is given",
        right=Python(
            'kernel = kb.compile("k.tl")\ndevice = kb.open("ahbm_2x2")\nx = np.ones(64, np.float32)\n'
            'run = device.run(kernel, x_ptr=x, placements={"x_ptr": kb.shard(0)})',
            "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, tl.pe_index() * 1.0)\n",
        ),
    ),
    Explanation(
        code="E_INTERRUPTED",
        story="""
            Somebody pressed Ctrl-C. What had happened until then is kept: the error's `run` has the op log, and the
            command line ends with 130.
        """,
        no_example="it takes a person at the keyboard",
    ),
    Explanation(
        code="E_NO_COMPLETION",
        story="""
            Each request gets one completion. This one has none although nothing is left to happen on the device,
            which is a fault of the device or of what was put in its place.
        """,
        no_example="the device that is simulated here completes every request, if with a deadlock or a limit",
    ),
)
