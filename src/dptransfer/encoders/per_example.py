"""Run a network on each example by itself, and know the networks that do so by construction.

They run on plain batches; all others run on each example by itself (`encoders.per_example`). A name proves
nothing, so the layers themselves are looked at: each must be of exactly a type whose code is known, without
hooks, in evaluation mode, with nothing but plain data for its settings.

Every type in the list takes maps, (pictures, channels, height, width), gives maps, and computes those of a
picture from that picture alone. So does whatever is built of them one after the other, or as the blocks of
EfficientNet-Lite are. A linear layer works along the last axis; of normalisations by a batch there is none,
as those with running statistics use these.

Every sensitivity rests on this: what one picture gives must not depend on the pictures beside it. Code that
is not known cannot be trusted to keep to that. It may divide by the largest value of a batch, keep state from
call to call in a buffer, an attribute or a global, draw random numbers, or mix gradients alone. No number of
trials shows all of it. So such code is never run on private pictures:

1. it is run on one example of public noise, and the tensor operations that it performs are recorded;
2. the recording must be a pure function: operations of torch's own ATen library alone, none of which changes
   a tensor in place, draws a random number, addresses memory by strides or fails for some values. Python
   code, state, hooks, closures and derivatives of the network's own are not in it, and a branch on a value
   cannot be recorded. Memory that would be taken as it is, with what other pictures left in it, is filled
   with zeros, and indices that a picture gives wrap around, so that none is out of range;
3. `torch.func.vmap` applies the recording to many examples, each of which it computes as if it were alone.
   Kernels still see all of them together, so this is about as fast as a plain batch.

Gradients are those of the recorded operations.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import PixelArray
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from torch.fx import Graph, Node

    from dptransfer.encoders.torch_module import TorchModuleEncoder
    from dptransfer.encoders.transformers import TransformersImage

    Form: TypeAlias = tuple[tuple[torch.Size, torch.dtype, torch.device], ...]
    """Shape without the first axis, type and device of each tensor that a function takes."""
    Function: TypeAlias = Callable[..., torch.Tensor]


def probe_pictures(count: int, side: int) -> PixelArray:
    """So many pictures, (count, side, side, 3) bytes, the same for everyone; first and last are noise.

    Noise comes first, then a black picture, a white one, one half black and half white, a single bright
    pixel, a checkerboard and faint noise; and then the same again, with other noise.

    >>> [int(one.max()) for one in probe_pictures(9, 8)[1:4]]
    [0, 255, 255]
    """
    bits = np.random.Generator(np.random.PCG64(0))
    shape = (side, side, 3)
    rows, columns = np.indices((side, side))
    halves, board, pixel = (np.zeros(shape, dtype=np.uint8) for _ in range(3))
    halves[columns >= side // 2], board[(rows + columns) % 2 == 0], pixel[side // 2, side // 3] = (255,) * 3
    kinds = [np.zeros_like(halves), np.full_like(halves, 255), halves, pixel, board]
    pictures = np.empty((count, *shape), dtype=np.uint8)
    for place in range(count):
        kind = place % (len(kinds) + 2)
        if kind == 0 or place == count - 1:
            pictures[place] = bits.integers(0, 256, shape)
        elif kind > len(kinds):
            pictures[place] = bits.integers(110, 145, shape)
        else:
            pictures[place] = kinds[kind - 1]
    return pictures


_NUMBERS = {bool, int, float, str, type(None)}
_TABLES = "_parameters", "_buffers", "_modules"
_PADDINGS = "padding", "_reversed_padding_repeated_twice"
_ENDS = 4  # of a map's height and width; more would pad the axis of the pictures


def keeps_pictures_apart(module: torch.nn.Module) -> bool:
    """Whether a torch module is known to compute each picture of a batch from that picture alone."""
    return not _hooks_on_all() and all(map(_is_plain, module.modules())) and _is_known(module)


def is_plain_linear(layer: torch.nn.Module) -> bool:
    """Whether a torch module is a linear layer and no more, which keeps rows apart."""
    return type(layer) is torch.nn.Linear and _is_plain(layer) and not _hooks_on_all()


def _hooks_on_all() -> bool:
    everywhere: Any = torch.nn.modules.module
    return bool(everywhere._has_any_global_hook())


def _is_known(module: torch.nn.Module) -> bool:
    """Whether the types of all layers are known."""
    nn = torch.nn
    known: set[type] = {nn.Conv2d, nn.BatchNorm2d, nn.GroupNorm, nn.ReLU, nn.ReLU6, nn.AvgPool2d, nn.Identity}
    layers = list(module.modules())
    if type(module).__name__ == "FeatureMaps":  # torch and the package are not asked for by others
        from dptransfer.encoders.efficientnet import feature_maps, network_types

        network: Any = getattr(module, "network", None)
        network_type, layer_types = network_types()
        if type(module) is not feature_maps() or type(network) is not network_type:
            return False
        known |= layer_types
        # Of the network, the own `forward`, which ends in logits, is not used.
        layers = [one for one in layers if one is not module and one is not network]
    elif type(module) is nn.Sequential:
        known.add(nn.Sequential)
    else:
        return False
    return all(type(one) in known for one in layers)


def _is_plain(layer: torch.nn.Module) -> bool:
    """Whether a layer computes what its class says: no hooks, no functions of its own, nothing by batches."""
    settings = {name: value for name, value in vars(layer).items() if name not in _TABLES}
    changed = not all(map(_is_data, settings.values()))  # hooks are functions, too
    changed = changed or any(type(vars(layer)[name]) not in (dict, OrderedDict) for name in _TABLES)
    pads = (settings.get(name) for name in _PADDINGS)
    by_batch = any(isinstance(ends, tuple | list) and len(ends) > _ENDS for ends in pads)
    by_batch = by_batch or (isinstance(layer, torch.nn.BatchNorm2d) and layer.running_mean is None)
    tensors = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
    own = all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in tensors)
    return own and not (changed or by_batch or layer.training)


def _is_data(value: object) -> bool:
    """Whether a setting is made of numbers and words: what has no code cannot look at pictures."""
    if isinstance(value, dict):
        return type(value) in (dict, OrderedDict) and all(map(_is_data, value.values()))
    if isinstance(value, tuple | list | set):
        return all(map(_is_data, value))
    return type(value) in _NUMBERS


_FAILS = set(
    "_assert_async _assert_scalar _linalg_check_errors _linalg_eigh _linalg_svd binary_cross_entropy "
    "cholesky cholesky_inverse histc histogram linalg_eig linalg_lstsq linalg_pinv".split()
)
"""Operations that raise an error for some values: a run would stop, after the charge, for one picture."""

_FAILS_FOR_WHOLE_NUMBERS = {"div", "floor_divide", "fmod", "pow", "remainder"}
"""Operations that raise an error for some whole numbers, such as a divisor of zero."""

_BY_STRIDES = {"as_strided", "as_strided_copy", "as_strided_scatter", "segment_reduce"}
"""Operations that read memory around an example, where many examples may lie between each other."""

_CHECKED = set(
    "__lshift__ __rshift__ _adaptive_avg_pool2d _adaptive_avg_pool3d _cdist_forward _conj _conj_physical "
    "_convolution _euclidean_dist _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c "
    "_fft_c2r _fft_r2c _fused_rms_norm _grouped_mm _int_mm _linalg_det _linalg_slogdet _linalg_solve_ex "
    "_log_softmax _masked_softmax _native_batch_norm_legit _native_batch_norm_legit_no_training _neg_view "
    "_pdist_forward _prelu_kernel _safe_softmax _softmax _stack _to_copy _trilinear _unsafe_index "
    "_unsafe_index_put _unsafe_masked_index _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
    "_upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d".split()
)
"""Inner operations of torch that check the shapes they are given. Others of these, and derivatives, trust
whoever calls them, and with other shapes read or write memory around an example."""

_EMPTY = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
"""Operations that give memory as it is, with numbers of whatever was computed before."""

_ALONG = {"gather", "index_add", "index_copy", "index_fill", "index_reduce", "index_select"}
_ALONG |= {"scatter", "scatter_add", "scatter_reduce"}
"""Operations on (tensor, dimension, indices, ...), which fail for an index that is out of range."""

_AT_EACH = {"index", "_unsafe_index", "index_put", "_unsafe_index_put"}
"""Operations on (tensor, indices by dimension, ...), likewise."""

_IN_ALL = {"embedding", "max_unpool2d", "max_unpool3d", "put", "take"}
"""Operations on (tensor, indices, ...), likewise."""

_BY_SHAPE = _EMPTY | set("full_like ones_like zeros_like new_full new_ones new_zeros".split())
"""Operations that look at the shape of a tensor and not at its numbers."""

_AS_VALUES = set(
    "_to_copy _unsafe_view alias all amax amin any argmax argmin bmm bucketize cat constant_pad_nd "
    "copy cumprod cumsum detach diagonal expand flip isin lift_fresh_copy mean median mm permute "
    "prod repeat reshape roll select select_scatter slice slice_scatter sort split split_with_sizes "
    "squeeze stack sum t topk transpose tril triu unbind unfold unsqueeze view".split()
)
"""Operations that take whole numbers as values, beside those on each number by itself."""

_TAKES_WHOLE_NUMBERS = _AS_VALUES | _BY_SHAPE | _ALONG | _AT_EACH | _IN_ALL


class PerExample:
    """A function of tensors whose first axis is examples, each of which is computed alone.

    Args:
        function: from tensors of one example, (1, ...), to a tensor (1, ...). Its code is run on noise alone.
        name: of the network, for errors.
    """

    def __init__(self, function: Function, name: str) -> None:
        self._function, self._name = function, name
        self._recordings: dict[Form, Function] = {}

    def __call__(self, *given: torch.Tensor) -> torch.Tensor:
        """(examples, ...) for tensors (examples, ...)."""
        form = tuple((one.shape[1:], one.dtype, one.device) for one in given)
        if form not in self._recordings:
            self._recordings[form] = _record(self._function, form, self._name)
        return _each(self._recordings[form], given)


def rows_alone(encoder: TorchModuleEncoder | TransformersImage) -> PerExample:
    """The `rows_of` of an encoder with a torch `module`, for each picture by itself.

    What the module's code leaves behind when it is recorded stays in a copy, which has the same tensors.
    """
    twin = copy(encoder)
    with torch.inference_mode(False):  # whose tensors have no derivative
        twin.module = deepcopy(encoder.module, {id(one): one for one in state_of(encoder.module)})
    return PerExample(twin.rows_of, encoder.identity.name)


def state_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers of a module: a recording has these very tensors, whatever is in them."""
    return [*module.parameters(), *module.buffers()]


@contextmanager
def exact_kernels() -> Iterator[None]:
    """Deterministic kernels and no reduced-precision shortcut.

    cuDNN's autotuner may pick another kernel in the next run and TF32 rounds to ten bits; both are off, so
    that a row depends on the picture, the weights, the machine and the batch's size alone.
    """
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Exact kernels; of attention the plain one, which is the same on the way back and for many networks."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with exact_kernels(), sdpa_kernel(SDPBackend.MATH):
        yield


def _each(recording: Function, given: Sequence[torch.Tensor]) -> torch.Tensor:
    """What a recording makes of each example."""
    return torch.func.vmap(recording)(*(one[:, None] for one in given))[:, 0]


def _record(function: Function, form: Form, name: str) -> Function:
    """The operations that the function performs on tensors (1, ...), as a pure function of such tensors.

    Args:
        function: is run on noise, and on nothing else.
        form: what it takes.
        name: of the network, for errors.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    def on_copies(*given: torch.Tensor) -> torch.Tensor:
        return function(*(one.clone() for one in given))

    try:
        # With a derivative asked for, so that no kernels are chosen that have none.
        with torch.inference_mode(False), torch.enable_grad(), plain_kernels():
            noise = [_noise(*one) for one in form]
            # Twice: functions with derivatives of their own become operations before changes in place do.
            plain = make_fx(on_copies)(*noise)
            pure = make_fx(torch.func.functionalize(plain))(*noise)
    except Exception as problem:  # whatever the code of a network may raise
        raise _refusal(name, _first_line(problem)) from None
    varying: set[Node] = set()  # what an example may change
    for node in list(pure.graph.nodes):
        given = node.op == "placeholder" or varying.intersection(node.all_input_nodes)
        if given and _kind(node) not in _BY_SHAPE:
            varying.add(node)
        if node.op == "call_function":
            _require_pure(node, name, varying)
            _make_total(node, pure.graph)
        if node.target is torch.ops.aten.view.default:  # of one example; many may lie otherwise in memory
            node.target = torch.ops.aten.reshape.default
        if node.target is torch.ops.aten.slice_scatter.default and len(node.args) > 4:
            whole, end = node.meta["val"].shape[node.args[2]], node.args[4]
            node.update_arg(4, min(end, whole))  # vmap overflows where the end is the largest number
    pure.recompile()
    functorch: Any = torch._C._functorch
    functorch._set_vmap_fallback_warning_enabled(False)  # what has no rule runs one by one, as promised
    try:
        with torch.no_grad():
            _each(pure, [torch.cat([one, one]) for one in noise])
    except Exception as problem:
        raise _refusal(name, _first_line(problem)) from None
    return pure


def _require_pure(node: Node, name: str, varying: set[Node]) -> None:
    """Raise unless the operation is a pure function of torch's own that no value of `varying` makes fail."""
    operation = node.target
    if operation is getitem:  # one of several answers of an operation
        return
    if not isinstance(operation, torch._ops.OpOverload) or operation.namespace != "aten":
        raise _refusal(name, f"{operation} is no operation of torch's own")
    if operation._schema.is_mutable:
        raise _refusal(name, f"{operation} changes what stays from call to call")
    kind = _kind(node)
    whole = kind in _FAILS_FOR_WHOLE_NUMBERS and not node.meta["val"].dtype.is_floating_point
    places = _takes_places(node, varying)
    whole = whole and isinstance(node.args[1], torch.fx.Node)
    if kind in _FAILS or places or whole or node.kwargs.get("check_errors"):
        raise _refusal(name, f"{operation} fails for some values, and no run may tell of those")
    inner = (kind.startswith("_") or "backward" in kind) and kind not in _CHECKED
    if node in varying and (inner or kind in _BY_STRIDES):
        raise _refusal(name, f"{operation} addresses memory by strides or unchecked, where others may lie")
    if torch.Tag.nondeterministic_seeded in operation.tags:
        raise _refusal(name, f"{operation} draws random numbers")


def _takes_places(node: Node, varying: set[Node]) -> bool:
    """Whether whole numbers of an example may be places or counts for the operation, and not wrap around."""
    operation: Any = node.target
    if torch.Tag.pointwise in operation.tags or _kind(node) in _TAKES_WHOLE_NUMBERS:
        return False
    given = [one.meta["val"] for one in varying.intersection(node.all_input_nodes)]
    return any(not one.dtype.is_floating_point and not one.dtype.is_complex for one in given)


def _make_total(node: Node, graph: Graph) -> None:
    """Fill memory that nothing was written to, and let indices wrap around that the example may give."""
    args: Any = node.args
    aten, kind = torch.ops.aten, _kind(node)

    def wrap(index: Any, size: int) -> Any:
        if not isinstance(index, torch.fx.Node) or index.op == "get_attr" or not size:
            return index
        if index.meta["val"].dtype == torch.bool:
            return index
        with graph.inserting_before(node):
            return graph.call_function(aten.remainder.Scalar, (index, size))

    if kind in _EMPTY:
        with graph.inserting_after(node):
            filled = graph.call_function(aten.zeros_like.default, (node,))
        node.replace_all_uses_with(filled, delete_user_cb=lambda user: user is not filled)
    elif kind in _ALONG:
        node.update_arg(2, wrap(args[2], _sizes(args[0])[args[1]]))
    elif kind in _AT_EACH:
        sizes = _sizes(args[0])
        node.update_arg(1, [wrap(one, sizes[at]) for at, one in enumerate(args[1])])
    elif kind in _IN_ALL:
        sizes = _sizes(args[0])[:1] if kind == "embedding" else _sizes(args[0])
        node.update_arg(1, wrap(args[1], math.prod(args[2] if kind.startswith("max") else sizes)))


def _kind(node: Node) -> str:
    """The name of an operation, whatever its overload."""
    schema = getattr(node.target, "_schema", None)  # of operations alone
    return "" if schema is None else str(schema.name.removeprefix("aten::"))


def _sizes(node: Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".partition("\n")[0]


def _refusal(name: str, why: str) -> ArgumentError:
    return ArgumentError(
        "A network of your own must compute every picture alone, by one fixed list of torch's operations, so "
        f"that none can count for others; that of '{name}' cannot be recorded as such ({why}). Write it "
        "without branches on values (use torch.where), without state and without random numbers."
    )


def _noise(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """One example that is the same for everyone."""
    if not dtype.is_floating_point:
        return torch.zeros(1, *shape, dtype=dtype, device=device)
    draws = torch.Generator().manual_seed(0)
    return torch.randn(1, *shape, generator=draws).to(device, dtype).requires_grad_()
