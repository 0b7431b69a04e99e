-- Memory: devices, and what optimizers keep.

-- The kind of a device, by its number in torch (c10/core/DeviceType.h).
create or replace macro device_kind(number) as
case number
    when 0 then 'cpu'
    when 1 then 'cuda'
    when 6 then 'hip'
    when 12 then 'xpu'
    when 15 then 'hpu'
    when 19 then 'mtia'
    else 'other'
end;

-- How many numbers an optimizer of torch.optim keeps for each one of a parameter, with its default settings: moments,
-- sums of squares. NULL where that depends on settings that no trace shows: SGD keeps one if it has momentum. Source:
-- the state that each class of torch/optim makes in its `_init_group` (2.13).
create or replace macro state_copies(optimizer) as
case
    when optimizer in ('Adam', 'AdamW', 'NAdam', 'RAdam', 'Adamax', 'SparseAdam', 'Adadelta', 'Rprop') then 2
    when optimizer in ('Adagrad', 'RMSprop') then 1
end;

-- Whether an op computes each number of its result from few others, so that it can be computed again for little: of one
-- element each, or of one row. Products and convolutions are not among them, and batch norm is not, which changes its
-- averages.
create or replace macro is_light_op(name) as
regexp_matches(
    name,
    '^aten::(abs|add|addcdiv|addcmul|cat|clamp|clone|contiguous|cos|div|dropout|elu|erf|exp|expand|gelu|glu'
    || '|hardsigmoid|hardswish|hardtanh|layer_norm|leaky_relu|log|log_softmax|masked_fill|mish|mul|native_dropout'
    || '|neg|pow|reciprocal|relu|relu6|repeat|reshape|rms_norm|rsqrt|rsub|selu|sigmoid|silu|sin|softmax|softplus'
    || '|sqrt|square'
    || '|stack|sub|tanh|to|where)_?$'
);

-- Whether a call of the runtime or driver asks for memory, or gives memory back.
create or replace macro is_allocation_call(name) as
regexp_matches(
    name,
    '^(cuda|hip)(Malloc|Free|MallocHost|FreeHost|HostAlloc|HostMalloc|HostFree|HostRegister)$'
    || '|^cuMem(Alloc|Free|Create|Map|Unmap|Release|AddressReserve|AllocHost)(_v2)?$'
);
