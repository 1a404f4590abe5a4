"""Errors of branches, loops, helpers and assertions: what a kernel does, and how far it unfolds."""

from __future__ import annotations

from kernbench.explain.model import Explanation, Kernel

_X = "x_ptr=*fp32"
_XN = "x_ptr=*fp32,n=i32"

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_BRANCH_TYPES",
        story="""
            Behind an `if` whose condition is known at run time only, a name has one type whichever branch ran, for
            it lives in one register or one place in TCM. The two types here cannot be joined. A branch
            that a constexpr decides is different: the other one is not looked at.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                if n > 4:
                    a = tl.zeros((16,), tl.float32)
                else:
                    a = tl.zeros((32,), tl.float32)
                tl.store(x_ptr, tl.sum(a, axis=0))
            """,
            _XN,
        ),
        says="`a` has two types here: it is float32[16] first and float32[32] then",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                if n > 4:
                    a = tl.zeros((32,), tl.float32)
                else:
                    a = tl.full((32,), 1.0, tl.float32)
                tl.store(x_ptr, tl.sum(a, axis=0))
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_CARRIED_TYPE",
        story="""
            A loop stays a loop whatever its trip count, so a name that one trip leaves for the next has one type and
            shape through all of them. A constant 0 before the loop widens by itself; a block of another shape, or
            another element type, does not.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                acc = tl.zeros((16,), tl.float32)
                for i in range(n):
                    acc = (acc + 1.0).to(tl.float16)
                tl.store(x_ptr + tl.arange(0, 16), acc)
            """,
            _XN,
        ),
        says="`acc` changes its type in the loop: it is float32[16] first and float16[16] then",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                acc = tl.zeros((16,), tl.float32)
                for i in range(n):
                    acc = acc + 1.0
                tl.store(x_ptr + tl.arange(0, 16), acc.to(tl.float16))
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_RETURN_TYPES",
        story="""
            A helper with several returns behind run-time conditions gives back one type, as the branches of an `if`
            do: the caller's value lives in one place.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def pick(n):
                if n > 4:
                    return tl.zeros((16,), tl.float32)
                return tl.zeros((32,), tl.float32)

            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, tl.sum(pick(n), axis=0))
            """,
            _XN,
        ),
        says="`pick` returns values of two types: it is float32[16] first and float32[32] then",
        right=Kernel(
            """
            @triton.jit
            def pick(n):
                if n > 4:
                    return tl.full((32,), 1.0, tl.float32)
                return tl.zeros((32,), tl.float32)

            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, tl.sum(pick(n), axis=0))
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_KERNEL_RETURNS",
        story="""
            A kernel is started by the host, many times over, and leaves its results in memory; there is nobody to
            give a value to. Triton's compiler refuses such a kernel, too (its interpreter drops the value). Store it
            through a pointer parameter. `return` alone ends a program early, and a helper returns what it likes.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                return tl.load(x_ptr) + 1.0
            """,
            _X,
        ),
        says="kernel `k` returns a value (float32)",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, tl.load(x_ptr) + 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="R_RETURN_DROPPED",
        story="""
            A kernel's `return 0` compiles, here as in Triton, but the constant goes nowhere: the host gets what the
            kernel stored, and nothing else.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, 1.0)
                return 0
            """,
            _X,
        ),
        says="what kernel `k` returns (constexpr 0) is dropped",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_NOT_ITERABLE",
        story="""
            A loop runs over `range(...)`, `tl.range(...)` or `tl.static_range(...)`, or over the items of a tuple.
            A block has no elements that PE_CPU could take one by one; work on it as a whole.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                total = 0.0
                for x in tl.load(x_ptr + tl.arange(0, 16)):
                    total += x
                tl.store(x_ptr, total)
            """,
            _X,
        ),
        says="a loop cannot run over float32[16]",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                total = tl.sum(tl.load(x_ptr + tl.arange(0, 16)), axis=0)
                tl.store(x_ptr, total)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_RANGE_STEP",
        story="""
            A range whose step is 0 never reaches its end. Where the step is known at run time only, the device tells
            it, as E_LOOP_STEP.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                for i in range(0, n, 0):
                    tl.store(x_ptr + i, 1.0)
            """,
            _XN,
        ),
        says="the step of a range is 0",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                for i in range(0, n, 4):
                    tl.store(x_ptr + i, 1.0)
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_ENDLESS_LOOP",
        story="""
            The condition of a `while` is always true, and no `return` leaves the loop. A loop whose condition the
            compiler cannot see through is ended by the run's limits instead.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                while True:
                    tl.store(x_ptr, 1.0)
            """,
            _XN,
        ),
        says="the condition of this loop is always true, and nothing leaves the loop",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                i = 0
                while i < n:
                    tl.store(x_ptr, 1.0)
                    i += 1
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_UNROLL_TOO_LARGE",
        story="""
            `tl.static_range` writes its body out once a trip, which makes the program as long as the loop. `range`
            stays a loop: compile time and binary do not grow with its trips.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                for i in tl.static_range(100000):
                    tl.store(x_ptr + i, 1.0)
            """,
            _X,
        ),
        says="the loop unrolls to 100000 trips, at most 1024 are allowed",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                for i in range(100000):
                    tl.store(x_ptr + i, 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_PROGRAM_TOO_LARGE",
        story="""
            Unrolled loops in unrolled loops, and helpers that call helpers twice, multiply. The compiler counts the
            statements it walks and stops where a program would take more time and memory than it is worth.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                for i in tl.static_range(1000):
                    for j in tl.static_range(1000):
                        if i == j:
                            tl.store(x_ptr + i * 1000 + j, 1.0)
            """,
            _X,
        ),
        says="the kernel unfolds to more than 25000 statements",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                for i in range(1000):
                    for j in range(1000):
                        if i == j:
                            tl.store(x_ptr + i * 1000 + j, 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_RECURSION",
        story="""
            Helpers are put in where they are called, so one that calls itself would never end; PE_CPU has no stack.
            Write a loop.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def power(x, n):
                return x * power(x, n - 1) if n > 0 else 1.0

            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, power(2.0, n))
            """,
            _XN,
        ),
        says="`power` calls itself",
        right=Kernel(
            """
            @triton.jit
            def power(x, n):
                result = 1.0
                for i in range(n):
                    result = result * x
                return result

            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, power(2.0, n))
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_INLINE_TOO_DEEP",
        story="""
            Helpers that call helpers are put into one another, to a bounded depth. Nobody writes such a chain by
            hand; a generated file that meets the limit is flattened where it is generated.
        """,
        no_example="an example would need more than 32 helpers, each of which calls the next",
    ),
    Explanation(
        code="E_ASSERT_FAILED",
        story="""
            The condition of an `assert`, `tl.static_assert` or `tl.device_assert` is known when the kernel is
            compiled, and it is false: the kernel says of itself that it does not work for these constexprs. A
            condition that is known at run time only is checked on the device.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                tl.static_assert(BLOCK <= 128, "BLOCK is at most 128")
                tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
            """,
            _X,
            "BLOCK=256",
        ),
        says="assertion failed: BLOCK is at most 128",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                tl.static_assert(BLOCK <= 128, "BLOCK is at most 128")
                tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
            """,
            _X,
            "BLOCK=128",
        ),
    ),
    Explanation(
        code="E_RAISE_REACHED",
        story="""
            A `raise` on the way that these constexprs take. Behind a run-time condition it becomes an assertion that
            fails on the device.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, MODE: tl.constexpr):
                if MODE == 0:
                    tl.store(x_ptr, 1.0)
                else:
                    raise ValueError("no such mode")
            """,
            _X,
            "MODE=1",
        ),
        says="the kernel raises: ValueError: no such mode",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, MODE: tl.constexpr):
                if MODE == 0:
                    tl.store(x_ptr, 1.0)
                else:
                    raise ValueError("no such mode")
            """,
            _X,
            "MODE=0",
        ),
    ),
)
