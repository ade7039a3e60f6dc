"""Run a network on each example by itself, whatever its code does with a batch.

Every sensitivity rests on this: what one picture gives must not depend on the pictures beside it. Code that
is not known cannot be trusted to keep to that. It may divide by the largest value of a batch, keep state from
call to call in a buffer, an attribute or a global, draw random numbers, or mix gradients alone. No number of
trials shows all of it. So such code is never run on private pictures:

1. it is run on one example of public noise, and the tensor operations that it performs are recorded;
2. the recording must be a pure function: operations of torch's own ATen library alone, none of which changes
   a tensor in place, draws a random number or fails for some values. Python code, state, hooks, closures and
   derivatives of the network's own are not in it, and a branch on a value cannot be recorded;
3. `torch.func.vmap` applies the recording to many examples, each of which it computes as if it were alone.
   Kernels still see all of them together, so this is about as fast as a plain batch.

Gradients are those of the recorded operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from operator import getitem
from typing import Any

from dptransfer.encoders.device import exact_kernels
from dptransfer.errors import ArgumentError

_FAILS = {
    "_assert_async",
    "_assert_scalar",
    "_linalg_check_errors",
    "_linalg_eigh",
    "_linalg_svd",
    "linalg_eig",
    "linalg_lstsq",
}
"""Operations that raise an error for some values: a run would stop, after the charge, for one picture."""


class PerExample:
    """A function of tensors whose first axis is examples, each of which is computed alone.

    Args:
        function: from tensors of one example, (1, ...), to a tensor (1, ...). Its code is run on noise alone.
        name: of the network, for errors.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        self._recordings: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *given: Any) -> Any:
        """(examples, ...) for tensors (examples, ...)."""
        form = tuple((one.shape[1:], one.dtype, one.device) for one in given)
        if form not in self._recordings:
            self._recordings[form] = _recorded(self._function, form, self._name)
        return _each(self._recordings[form], given)


def rows_alone(encoder: Any) -> PerExample:
    """The `rows_of` of an encoder with a torch `module`, for each picture by itself.

    What the module's code leaves behind when it is recorded stays in a copy, which has the same tensors.
    """
    import torch

    twin = copy(encoder)
    with torch.inference_mode(False):  # whose tensors have no derivative
        twin.module = deepcopy(encoder.module, {id(one): one for one in state_of(encoder.module)})
    return PerExample(twin.rows_of, encoder.identity.name)


def state_of(module: Any) -> list[Any]:
    """Parameters and buffers of a module: a recording has these very tensors, whatever is in them."""
    return [*module.parameters(), *module.buffers()]


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Exact kernels; of attention the plain one, which is the same on the way back and for many networks."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with exact_kernels(), sdpa_kernel(SDPBackend.MATH):
        yield


def _each(recording: Callable[..., Any], given: Sequence[Any]) -> Any:
    """What a recording makes of each example."""
    import torch

    return torch.func.vmap(recording)(*(one[:, None] for one in given))[:, 0]


def _recorded(function: Callable[..., Any], form: tuple[Any, ...], name: str) -> Callable[..., Any]:
    """The operations that the function performs on tensors (1, ...), as a pure function of such tensors.

    Args:
        function: is run on noise, and on nothing else.
        form: shape without the first axis, type and device of each tensor.
        name: of the network, for errors.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    def on_copies(*given: Any) -> Any:
        return function(*(one.clone() for one in given))

    try:
        # With a derivative asked for, so that no kernels are chosen that have none.
        with torch.inference_mode(False), torch.enable_grad(), plain_kernels():
            noise = [_noise(*one) for one in form]
            # Twice: functions with derivatives of their own become operations before changes in place do.
            plain = make_fx(on_copies)(*noise)
            pure: Any = make_fx(torch.func.functionalize(plain))(*noise)
    except Exception as problem:  # whatever the code of a network may raise
        raise _refused(name, _first_line(problem)) from None
    for node in pure.graph.nodes:
        if node.op == "call_function":
            _require_pure(node.target, name)
        if node.target is torch.ops.aten.view.default:  # of one example; many may lie otherwise in memory
            node.target = torch.ops.aten.reshape.default
        if node.target is torch.ops.aten.slice_scatter.default and len(node.args) > 4:
            whole, end = node.meta["val"].shape[node.args[2]], node.args[4]
            node.update_arg(4, min(end, whole))  # vmap overflows where the end is the largest number
    pure.recompile()
    made: Callable[..., Any] = pure
    functorch: Any = torch._C._functorch
    functorch._set_vmap_fallback_warning_enabled(False)  # what has no rule runs one by one, as promised
    try:
        with torch.no_grad():
            _each(made, [torch.cat([one, one]) for one in noise])
    except Exception as problem:
        raise _refused(name, _first_line(problem)) from None
    return made


def _require_pure(operation: Any, name: str) -> None:
    """Raise unless the operation is a pure function of torch's own."""
    import torch

    if operation is getitem:  # one of several answers of an operation
        return
    if not isinstance(operation, torch._ops.OpOverload) or operation.namespace != "aten":
        raise _refused(name, f"{operation} is no operation of torch's own")
    if operation._schema.is_mutable:
        raise _refused(name, f"{operation} changes what stays from call to call")
    if operation._schema.name.removeprefix("aten::") in _FAILS:
        raise _refused(name, f"{operation} fails for some values, and no run may tell of those")
    if torch.Tag.nondeterministic_seeded in operation.tags:
        raise _refused(name, f"{operation} draws random numbers")


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".partition("\n")[0]


def _refused(name: str, why: str) -> ArgumentError:
    return ArgumentError(
        "A network of your own must compute every picture alone, by one fixed list of torch's operations, so "
        f"that none can count for others; that of '{name}' cannot be recorded as such ({why}). Write it "
        "without branches on values (use torch.where), without state and without random numbers."
    )


def _noise(shape: Any, dtype: Any, device: Any) -> Any:
    """One example that is the same for everyone."""
    import torch

    if not dtype.is_floating_point:
        return torch.zeros(1, *shape, dtype=dtype, device=device)
    draws = torch.Generator().manual_seed(0)
    return torch.randn(1, *shape, generator=draws).to(device, dtype).requires_grad_()
