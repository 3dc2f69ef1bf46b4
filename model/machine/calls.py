"""Calls of the kernel's functions: which function a call means, and what it does to the registers."""

from model.errors import Unsupported
from model.isa.opcodes import Call
from model.machine.kernel import Function, Kernel, Running
from model.machine.outcome import Violation
from model.machine.stack import Frame
from model.program import ExternRef, Form, SymbolRef
from model.semantics import frames
from model.semantics.operation import Invoke

TAIL_CALL_ID = 12
"""BPF_FUNC_tail_call (enum bpf_func_id)."""
_U64 = (1 << 64) - 1


def calls_tail(frame: Frame, call: Invoke) -> bool:
    """Whether the instruction calls the helper tail_call, which the machine does itself."""
    program = frame.code.program
    ref = program.refs.get(frame.slot)
    if call.kind is not Call.HELPER:
        return False
    if isinstance(ref, SymbolRef):
        return ref.name == "bpf_tail_call"
    return program.form is Form.OBJECT and call.target == TAIL_CALL_ID


def callee(kernel: Kernel, frame: Frame, call: Invoke) -> Function:
    """By name where the program has one, else by the helper's number. Raises `Violation` where there is none."""
    program = frame.code.program
    ref = program.refs.get(frame.slot)
    name = ref.name if isinstance(ref, SymbolRef | ExternRef) else None
    if name is not None:
        function = kernel.symbol(name)
    elif call.kind is Call.HELPER and program.form is Form.OBJECT:
        function = kernel.helper(call.target)
    else:
        raise Unsupported(f"a call of the kernel function with number {call.target}, whose name is not known")
    if function is None:
        what = f"helper {call.target}" if name is None else name
        raise Violation(f"bad call: the kernel that runs this has no {what}")
    return function


def invoke(running: Running, frame: Frame, function: Function) -> None:
    """Runs it; after it r1 to r5 hold nothing, r0 what it returned."""
    frame.readable(tuple(range(1, 1 + function.parameters)))
    result = function.body(running, tuple(frame.registers[1 : 1 + function.parameters]))
    frame.registers[:] = frames.scratch(frame.registers)
    if result is not None:
        frame.registers[0] = result & _U64
    frame.slot += 1
