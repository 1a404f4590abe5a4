"""The modules of the language, by canonical name, and what each holds; and Triton's names that are refused.

Does not know how a name is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernbench.compiler.builtins import BUILTINS
from kernbench.compiler.builtins.libdevice import LIBDEVICE
from kernbench.compiler.builtins.maths import NOT_IN_TL
from kernbench.compiler.builtins.standard import TARGET, TARGET_QUESTIONS
from kernbench.compiler.builtins.torch_types import TORCH_LIMITS, TORCH_TYPES
from kernbench.compiler.builtins.types import MATH_FUNCTIONS
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.values import BuiltinValue, Const, DTypeValue, ModuleValue, PointerType, TorchModule, Value
from kernbench.diagnostics import Span
from kernbench.dtypes import ALL, BY_NAME

# Names that statements give a meaning to; the walker knows them.
_STATEMENT_WORDS = ("range", "static_range", "static_assert", "device_assert", "scratch_scope")
_CLASSES = ("tensor", "tensor_descriptor")  # for `isinstance` and annotations; nobody calls them

_ELEMENTWISE = (
    "abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "isnan", "log", "log2", "rint",
    "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn", "tanh", "trunc",
)  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Known to Triton, refused by name: what has no meaning here, or no use that was found.
UNSUPPORTED: Mapping[str, frozenset[str]] = {
    "tl": _words(
        """float8e4b15 float8e4b8 float8e5b16 inline_asm_elementwise map_elementwise async_task
        experimental_device_tensormap_create2d experimental_tensormap_fenceproxy_acquire"""
    ),
    "libdevice": _words(
        """add_rd add_ru add_rz byte_perm cyl_bessel_i0 cyl_bessel_i1 div_rd div_ru div_rz erfcinv fma_rd fma_ru fma_rz
        hadd j0 j1 jn mul24 mul_rd mul_ru mul_rz norm3d norm4d rhadd rhypot rnorm3d rnorm4d rcp_rd rcp_rn rcp_ru
        rcp_rz sad sqrt_rd sqrt_ru sqrt_rz umul24 usad y0 y1 yn"""
    ),
    "tl.extra": _words(
        """globaltimer smid num_threads num_warps convert_custom_float8 libnvshmem
        experimental_device_tensormap_create2d experimental_tensormap_fenceproxy_acquire"""
    ),
}


_INSTEAD = {
    "inline_asm_elementwise": "write it with operators and functions of the language",
    "map_elementwise": "use operators on blocks and tl.where",
    "float8e4b15": "use tl.float8e4nv",
    "float8e4b8": "use tl.float8e4nv",
    "float8e5b16": "use tl.float8e5",
    "erfcinv": "write libdevice.erfinv(1 - x)",
    "rhypot": "write 1 / libdevice.hypot(x, y)",
    "norm3d": "write tl.sqrt(x * x + y * y + z * z)",
    "mul24": "write x * y",
    "hadd": "write (x + y) >> 1",
    "experimental_device_tensormap_create2d": "make the descriptor with tl.make_tensor_descriptor",
}


def unsupported(spoken: str, name: str, at: Span) -> Fault:
    """The refusal of a name that Triton has."""
    return fault("E_UNSUPPORTED_BUILTIN", f"`{spoken}` is not in the language", at, help=_INSTEAD.get(name))


# `tl.pi32_t` and its kin: Triton's short names of pointer types.
_POINTER_TYPES = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f16": "fp16", "f32": "fp32", "f64": "fp64"}


def _functions(names: Mapping[str, str]) -> dict[str, Value]:
    return {name: BuiltinValue(canonical) for name, canonical in names.items()}


_TYPES: dict[str, Value] = {dtype.triton: DTypeValue(dtype) for dtype in ALL}
_SHARED = {name: name for name in _ELEMENTWISE} | {"max": "maximum", "min": "minimum"}
_LIBDEVICE = {name: f"libdevice.{name}" for name in LIBDEVICE} | {"umulhi": "umulhi"}
_ELSEWHERE = (*NOT_IN_TL, "gdc_wait", "gdc_launch_dependents")
_WORDS = [name for name in BUILTINS if "." not in name and name not in _ELSEWHERE]
# Names of `triton.language.standard` that kernels import beside the functions.
_STANDARD = {
    "_log2": "standard.log2",
    "_is_power_of_two": "standard.is_power_of_two",
    "_elementwise_max": "maximum",
    "_elementwise_min": "minimum",
    **{f"_{name}_combine": f"standard.{name}_combine" for name in ("sum", "prod", "xor", "or")},
}

_CONSTEXPR_FUNCTION = {"constexpr_function": "standard.constexpr_function"}

MODULES: dict[str, dict[str, Value]] = {
    "tl": {
        **_functions({name: name for name in (*_WORDS, *_STATEMENT_WORDS)}),
        **_TYPES,
        **_functions({name: name for name in _CLASSES}),
        "math": ModuleValue("tl.math"),
        "libdevice": ModuleValue("libdevice"),
        "extra": ModuleValue("tl.extra"),
        "core": ModuleValue("tl"),
        "standard": ModuleValue("tl.standard"),
        "random": ModuleValue("tl"),
        "target_info": ModuleValue("tl.target_info"),
        "PropagateNan": ModuleValue("PropagateNan"),
        "TRITON_MAX_TENSOR_NUMEL": Const(1 << 20),
        "CONSTEXPR_0": Const(0),
        **{f"p{short}_t": DTypeValue(PointerType(BY_NAME[long])) for short, long in _POINTER_TYPES.items()},
    },
    "tl.math": _functions({**_LIBDEVICE, **_SHARED, "erf": "erf"}),
    "libdevice": _functions({**_LIBDEVICE, **_SHARED, "fmax": "maximum", "fmin": "minimum", "fma_rn": "fma"}),
    "tl.extra": {
        "libdevice": ModuleValue("libdevice"),
        **_functions({name: name for name in ("gdc_wait", "gdc_launch_dependents")}),
        **{backend: ModuleValue("tl.extra") for backend in ("cuda", "hip", "intel", "cann", "ascend")},
    },
    "PropagateNan": {"NONE": Const("none"), "ALL": Const("all")},
    "triton": {
        "language": ModuleValue("tl"),
        "runtime": ModuleValue("triton.runtime"),
        **_functions({"cdiv": "cdiv", "next_power_of_2": "next_power_of_2", **_CONSTEXPR_FUNCTION}),
    },
    "triton.runtime": {"jit": ModuleValue("triton.runtime.jit"), "driver": ModuleValue("triton.runtime.driver")},
    "triton.runtime.driver": {"active": ModuleValue("triton.runtime.driver.active")},
    "triton.runtime.driver.active": _functions({"get_current_target": "target_info.get_current_target"}),
    TARGET: {"backend": Const("kernbench"), "arch": Const("")},
    "triton.runtime.jit": _functions(_CONSTEXPR_FUNCTION),
    "tl.target_info": _functions({name: f"target_info.{name}" for name in TARGET_QUESTIONS}),
    "kernbench": {"language": ModuleValue("tl")},
    "math": {
        **_functions({name: f"builtins.math.{name}" for name in MATH_FUNCTIONS}),
        **{name: Const(float(getattr(math, name))) for name in ("pi", "e", "tau", "inf", "nan")},
    },
    "torch": {
        **_functions({name.removeprefix("torch."): name for name in (*TORCH_TYPES, "torch.finfo", "torch.iinfo")}),
        **{name: Const(float(getattr(math, name))) for name in ("pi", "e", "inf", "nan")},
        "version": TorchModule("torch.version"),
        "cuda": TorchModule("torch.cuda"),
    },
    "torch.version": {name: Const(None) for name in ("cuda", "hip", "xpu")},
    "torch.cuda": _functions({"is_available": "target_info.is_cuda"}),
    **{module: dict(limits) for module, limits in TORCH_LIMITS.items()},
}

MODULES["tl.standard"] = {**MODULES["tl"], **_functions(_STANDARD)}

PYTHON_BUILTINS: dict[str, Value] = {
    **_functions(
        {
            name.removeprefix("builtins."): name
            for name in BUILTINS
            if name.count(".") == 1 and name.startswith("builtins.")
        }
    ),
    "range": BuiltinValue("range"),
}


_PACKAGES: dict[str, ModuleValue] = {
    **{name: ModuleValue(name) for name in ("triton", "kernbench", "math")},
    "torch": TorchModule("torch"),
}


def imported(path: str) -> Value | None:
    """What an import of a dotted path gives; None where it leads out of the language."""
    first, *rest = path.split(".")
    value: Value | None = _PACKAGES.get(first)
    for name in rest:
        if not isinstance(value, ModuleValue):
            return None
        value = member(value.name, name)
    return value


def member(module: str, name: str) -> Value | None:
    """A member of a module; one that is not there yet is a function that cannot be called."""
    found = MODULES[module].get(name)
    if found is None and name in UNSUPPORTED.get(module, ()):
        return BuiltinValue(name)
    return found


def members(path: str) -> dict[str, Value]:
    """What `from path import *` binds."""
    module = imported(path)
    return dict(MODULES[module.name]) if isinstance(module, ModuleValue) else {}
