"""What the language of wrappers and kernels knows by name: the whole legality, as plain tables. Imports nothing heavy.

A wrapper computes with numbers, sizes, strings and containers of them, allocates and views tensors, and launches
kernels. A kernel is what Triton compiles. Anything that stands in none of these tables is refused. Reads and writes
nothing.
"""

ALLOCATING = frozenset(
    f"torch.{name}" for name in """
    empty empty_like empty_strided zeros zeros_like ones ones_like full full_like as_tensor
    """.split()
)  # fmt: skip
"""Functions that make tensors."""
_DTYPES = """
    float16 half bfloat16 float32 float float64 double int8 int16 short int32 int int64 long uint8 uint16 uint32 uint64
    bool complex64 complex128 float8_e4m3fn float8_e5m2
"""
TORCH_CONSTANTS = frozenset(
    f"torch.{name}" for name in f"""
    {_DTYPES} strided contiguous_format channels_last channels_last_3d preserve_format Tensor Size dtype
    version.cuda __version__ nn.Parameter inf nan pi e
    """.split()
)  # fmt: skip
"""Values of torch that are no functions, or types to compare with."""
TORCH_FUNCTIONS = frozenset(
    f"torch.{name}" for name in """
    device finfo iinfo is_tensor cuda.current_device cuda.get_device_properties cuda.is_available cuda.device_count
    cuda.get_device_capability cuda.get_device_name is_floating_point numel
    """.split()
)  # fmt: skip
"""Functions of torch that ask what a thing or a machine is."""
CONTEXTS = frozenset({"torch.cuda.device", "torch.cuda.device_of", "torch.no_grad", "torch.inference_mode",
                      "contextlib.nullcontext"})  # fmt: skip
"""What may stand in a `with`; none of them does anything here but the first two, where there is a GPU."""
TRITON_FUNCTIONS = frozenset({"triton.cdiv", "triton.next_power_of_2", "triton.Config"})
MATH_FUNCTIONS = frozenset(
    f"math.{name}" for name in """
    ceil floor sqrt log log2 log10 log1p exp pow gcd lcm isqrt prod trunc fabs isinf isnan isfinite tanh sin cos
    """.split()
)  # fmt: skip
MATH_CONSTANTS = frozenset({"math.pi", "math.e", "math.inf", "math.nan", "math.tau"})
OTHER_FUNCTIONS = frozenset({"functools.partial", "functools.reduce", "itertools.product", "operator.mul",
                             "operator.add"})  # fmt: skip
CALLABLE = ALLOCATING | TORCH_FUNCTIONS | TRITON_FUNCTIONS | MATH_FUNCTIONS | OTHER_FUNCTIONS | {
    "torch.Size", "triton.language.constexpr"}  # fmt: skip
"""Names of libraries that a wrapper may call."""
LIBRARY = ALLOCATING | TORCH_CONSTANTS | TORCH_FUNCTIONS | TRITON_FUNCTIONS | MATH_FUNCTIONS | MATH_CONSTANTS \
    | OTHER_FUNCTIONS  # fmt: skip
"""Every dotted name that a wrapper may use as a value; names of triton.language are besides, as values to pass on."""
PLAIN_DECORATORS = frozenset({"torch.fx.wrap", "functools.lru_cache", "functools.cache", "torch.no_grad",
                              "torch.inference_mode", "torch.compiler.disable", "torch._dynamo.disable"})  # fmt: skip
"""Decorators of wrappers that change nothing here: a call depends on its arguments alone, so nothing is kept."""
KERNEL_DECORATORS = frozenset({"triton.autotune", "triton.heuristics"})
BUILTINS = frozenset("""
    abs all any bool dict divmod enumerate filter float frozenset int isinstance len list map max min pow print range
    repr reversed round set slice sorted str sum tuple type zip
""".split())  # fmt: skip
EXCEPTIONS = frozenset("""
    Exception ValueError TypeError RuntimeError NotImplementedError AssertionError KeyError IndexError AttributeError
    ImportError ModuleNotFoundError ZeroDivisionError ArithmeticError OverflowError LookupError NameError
""".split())  # fmt: skip
TENSOR_METHODS = frozenset("""
    size stride dim ndimension numel nelement element_size data_ptr storage_offset get_device is_contiguous
    is_floating_point is_complex is_signed
    contiguous view reshape expand permute transpose t unsqueeze squeeze flatten unflatten as_strided view_as expand_as
    reshape_as type_as narrow select split chunk unbind swapaxes swapdims movedim moveaxis detach clone alias
    new_empty new_empty_strided new_zeros new_ones new_full to type float half bfloat16 double int long short cuda cpu
    zero_ fill_
""".split())  # fmt: skip
"""Methods of tensors: sizes, layouts, copies and casts, constant fills. None of them computes with values."""
ASKING = frozenset("""
    size stride dim ndimension numel nelement element_size data_ptr storage_offset get_device is_contiguous
    is_floating_point is_complex is_signed
""".split())  # fmt: skip
"""Methods that give numbers, sizes or truth values, whatever they are called on."""
CONTAINER_METHODS = frozenset("""
    append extend insert pop remove clear copy count index sort reverse get items keys values setdefault update add
    discard union join split startswith endswith strip lstrip rstrip lower upper replace format bit_length is_integer
    numel popitem
""".split())  # fmt: skip
METHODS = TENSOR_METHODS | CONTAINER_METHODS
TENSOR_ATTRIBUTES = frozenset("""
    shape dtype device ndim is_cuda is_cpu itemsize nbytes requires_grad layout T mT data is_meta is_sparse
""".split())  # fmt: skip
ATTRIBUTES = TENSOR_ATTRIBUTES | frozenset("""
    type index is_floating_point is_complex is_signed start stop step max min eps tiny smallest_normal bits
    kwargs num_warps num_stages num_ctas maxnreg multi_processor_count major minor total_memory name warp_size
    max_threads_per_multi_processor regs_per_multiprocessor shared_memory_per_block shared_memory_per_multiprocessor
    shared_memory_per_block_optin L2_cache_size
""".split())  # fmt: skip
"""Attributes of tensors, devices, dtypes, slices and ranges, finfo, configurations and properties of a device."""
SURE_ATTRIBUTES = frozenset("shape dtype device ndim is_cuda is_cpu itemsize nbytes requires_grad layout".split())
"""Attributes that never hold a tensor."""

# --- kernels --------------------------------------------------------------------------------------------------------
KERNEL_BUILTINS = frozenset("len list range float int isinstance print min max".split())
"""Python's functions that Triton's front end knows."""
KERNEL_ATTRIBUTES = frozenset("""
    T abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or
    atomic_xchg atomic_xor broadcast_to cast cdiv ceil cos cumprod cumsum erf exp exp2 expand_dims flip floor gather
    histogram item log log2 logical_and logical_or max min permute ravel reduce reduce_or reshape rsqrt sigmoid sin
    softmax sort split sqrt sqrt_rn store sum to trans view xor_sum load scatter fdiv
    dtype element_ty scalar shape type value numel block_shape block_type primitive_bitwidth int_bitwidth itemsize
    fp_mantissa_width name nbytes
    is_bf16 is_block is_bool is_const is_floating is_fp16 is_fp32 is_fp64 is_fp8 is_fp8e4b15 is_fp8e4b8 is_fp8e4nv
    is_fp8e5 is_fp8e5b16 is_int is_int1 is_int16 is_int32 is_int64 is_int8 is_int_signed is_int_unsigned is_ptr
    is_standard_floating is_uint16 is_uint32 is_uint64 is_uint8 is_void get_int_max_value get_int_min_value
    get_block_shapes with_element_ty
""".split())  # fmt: skip
"""Attributes of values inside a kernel."""
LANGUAGE = "triton.language"
LANGUAGE_MODULES = frozenset(
    f"{LANGUAGE}{part}" for part in (
        "", ".math", ".extra", ".extra.libdevice", ".extra.cuda", ".extra.cuda.libdevice", ".extra.hip",
        ".extra.hip.libdevice",
    )
)  # fmt: skip
"""Modules of Triton's language whose functions, dtypes and constants a kernel may use."""
LANGUAGE_DENIED = frozenset("""
    core standard semantic random target_info module spec modules pkgutil module_finder module_from_spec module_name
    is_pkg wraps builtin jit List T
    inline_asm_elementwise globaltimer smid
""".split())  # fmt: skip
"""Names in these modules that are Triton's own workings, text that nobody reads, a clock, or where a program runs."""
