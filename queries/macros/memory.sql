-- Memory: kinds of devices, optimizer state, ops that are cheap to recompute, and calls that allocate or free memory.

-- Kind of a device, by number in torch (c10/core/DeviceType.h).
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

-- Values of optimizer state per parameter value (moments, sums of squares), for optimizers of torch.optim with default
-- settings. NULL if the number depends on settings not in the trace: SGD keeps one value if it has momentum. Source:
-- the state created in `_init_group` of each class in torch/optim (2.13).
create or replace macro state_copies(optimizer) as
case
    when optimizer in ('Adam', 'AdamW', 'NAdam', 'RAdam', 'Adamax', 'SparseAdam', 'Adadelta', 'Rprop') then 2
    when optimizer in ('Adagrad', 'RMSprop') then 1
end;

-- Whether an op computes each result value from few inputs, and is therefore cheap to recompute: from one element each,
-- or from one row. Products and convolutions are excluded. Batch norm is also excluded, because of the update of
-- running averages.
create or replace macro is_light_op(name) as
regexp_matches(
    name,
    '^aten::(abs|add|addcdiv|addcmul|cat|clamp|clone|contiguous|cos|div|dropout|elu|erf|exp|expand|gelu|glu'
    || '|hardsigmoid|hardswish|hardtanh|layer_norm|leaky_relu|log|log_softmax|masked_fill|mish|mul|native_dropout'
    || '|neg|pow|reciprocal|relu|relu6|repeat|reshape|rms_norm|rsqrt|rsub|selu|sigmoid|silu|sin|softmax|softplus'
    || '|sqrt|square'
    || '|stack|sub|tanh|to|where)_?$'
);

-- Whether a runtime or driver call allocates or frees memory.
create or replace macro is_allocation_call(name) as
regexp_matches(
    name,
    '^(cuda|hip)(Malloc|Free|MallocHost|FreeHost|HostAlloc|HostMalloc|HostFree|HostRegister)$'
    || '|^cuMem(Alloc|Free|Create|Map|Unmap|Release|AddressReserve|AllocHost)(_v2)?$'
);
