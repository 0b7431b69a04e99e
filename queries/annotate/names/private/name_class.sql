-- Names that tell what happens inside an event: a phase, a bucket, a module call or an autograd node.
--
-- Rules are data: for phases, for buckets and for signs, the first rule that matches a name counts. A `strong` name
-- decides for all it contains, the innermost one first. A `weak` name decides only where no strong one is around it: a
-- loss computed inside the model's forward is loss, and a module called inside `## loss ##` is loss too. An `aside`
-- name tells only where nothing in its event or around it does: most say that it is no part of a phase. `metadata`
-- names an op that computes nothing: it describes or allocates tensors. The names are
-- PyTorch's own (torch/profiler, torch/optim/optimizer.py, torch/utils/data/dataloader.py,
-- torch/csrc/autograd/engine.cpp), Lightning's (pytorch_lightning/profilers) and common words in users' annotations.
--
-- :reads name_info
-- :column class_id BIGINT      number of the category and name, from 1; names that tell nothing have none
-- :column category VARCHAR     kind of event, as in `event`
-- :column name VARCHAR         the event's full name
-- :column strong_phase PHASE   phase of all that the event holds, but for stronger names in it; NULL where the name
--                              tells none
-- :column weak_phase PHASE     phase of what the event holds if no strong name is around; NULL where the name tells
--                              none
-- :column aside_phase PHASE    phase of the event if nothing in it or around it tells another; NULL where the name
--                              tells none
-- :column bucket VARCHAR       gradient_accumulation or communication; NULL for other names
-- :column sign VARCHAR         layer, output, activation, update, clip, read, rescale, fetch, draw or create: what the
--                              op does, where no phase is shown; NULL for other names
-- :column evidence VARCHAR     kind of rule that tells the phase: annotation, profiler, autograd, python or op_name;
--                              NULL where none does
-- :column is_node BOOLEAN      an autograd node, or the engine's call of one
-- :column is_module BOOLEAN    the frame of a module's call
-- :column is_sync BOOLEAN      a call of the runtime or driver that returns when the GPU is done, as
--                              `name_info.is_blocking`
-- :column is_metadata BOOLEAN  an op that computes nothing: it describes or allocates tensors, or looks compiled code
--                              up
with rule as (
    select * from (
        values
        -- order, a word that the name must contain (in lower case; quicker than a pattern), category, pattern,
        -- kind, label, evidence
        (1, 'dataloader', 'user_annotation', '^enumerate\(DataLoader\)#', 'strong', 'load_data', 'profiler'),
        (2, 'zero_grad', 'user_annotation', '^Optimizer\.zero_grad#', 'strong', 'zero_grad', 'profiler'),
        (3, 'optimizer.step', 'user_annotation', '^Optimizer\.step#', 'strong', 'optimizer', 'profiler'),
        (4, '.forward', 'user_annotation', '^(\w*DataParallel|DDP|FSDP)\.forward$', 'weak', 'forward', 'profiler'),
        (5, '', 'user_annotation', '^(ProfilerStep#|nccl:|gloo:|mpi:|ucc:)', 'none', null, null),
        -- Lightning's, of which only the last word counts: the classes are the user's, a `LossNet` is no loss
        (6, '[pl]', 'user_annotation', '^\[pl\]\[module\].*\.\w*(Loss|Criterion)\w*: ', 'weak', 'loss', 'profiler'),
        (6.1, '[pl]', 'user_annotation', '^\[pl\]\[module\]', 'weak', 'forward', 'profiler'),
        (6.2, '[pl]', 'user_annotation', '^\[pl\].*\.optimizer_zero_grad$', 'strong', 'zero_grad', 'profiler'),
        (6.3, '[pl]', 'user_annotation', '^\[pl\].*\.optimizer_step$', 'strong', 'optimizer', 'profiler'),
        (6.4, '[pl]', 'user_annotation', '^\[pl\].*\.backward$', 'strong', 'backward', 'profiler'),
        (
            6.5, '[pl]', 'user_annotation', '^\[pl\].*\.(\w+_dataloader_next|\w+_to_device|\w+_batch_transfer)$',
            'strong', 'load_data', 'profiler'
        ),
        -- in it, ops tell
        (6.6, '[pl]', 'user_annotation', '^\[pl\].*\.configure_gradient_clipping$', 'none', null, null),
        (6.7, '[pl]', 'user_annotation', '^\[pl\]', 'aside', 'other', 'profiler'),
        -- torch.compile's own (torch/_inductor/output_code.py, torch/_inductor/codegen/wrapper.py)
        (7, '## ', 'user_annotation', '^## (Call CompiledFxGraph |inductor_kernel:)', 'none', null, null),
        -- words of users
        (10, 'grad', 'user_annotation', '(?i)zero[_ -]?grad', 'strong', 'zero_grad', 'annotation'),
        (
            11, 'opt', 'user_annotation', '(?i)(optimi[sz]er|(^|[^a-z])optim|opt[_ -]step)',
            'strong', 'optimizer', 'annotation'
        ),
        (12, 'b', 'user_annotation', '(?i)(backward|(^|[^a-z])bwd([^a-z]|$))', 'strong', 'backward', 'annotation'),
        (13, 'f', 'user_annotation', '(?i)(forward|(^|[^a-z])fwd([^a-z]|$))', 'strong', 'forward', 'annotation'),
        (14, '', 'user_annotation', '(?i)((^|[^a-z])loss|criterion)', 'strong', 'loss', 'annotation'),
        (
            15, 'load', 'user_annotation', '(?i)(data[_ -]?load|load[_ -]?(data|batch))',
            'strong', 'load_data', 'annotation'
        ),
        (
            16, '', 'user_annotation', '(?i)(next|get|fetch|wait[_ ]for)[_ -]?(data|batch)',
            'strong', 'load_data', 'annotation'
        ),
        (17, '', 'user_annotation', '(?i)(batch_to_device|(^|[^a-z])h2d)', 'strong', 'load_data', 'annotation'),
        -- TorchRec's pipelines spread the next batch's input over the ranks
        (18, '', 'user_annotation', '(?i)(data_dist|input_dist|(^|[^a-z])sdd_)', 'strong', 'load_data', 'annotation'),
        (19, '', 'user_annotation', '', 'aside', 'other', 'annotation'),
        -- autograd nodes; any such name makes a node
        (20, 'evaluate_function', 'cpu_op', '^autograd::engine::evaluate_function: ', 'strong', 'backward', 'autograd'),
        (
            21, 'backward', 'cpu_op', '^(torch::autograd::|torch::jit::)?\w*Backwards?\d*$',
            'strong', 'backward', 'autograd'
        ),
        -- what DDP does when the last gradients have been reduced
        (22, 'reducer', 'cpu_op', '^torch\.distributed\.ddp\.reducer::', 'strong', 'backward', 'op_name'),
        -- python frames
        (30, 'backward', 'python_function', '(^|/)torch/_tensor\.py\(\d+\): backward$', 'strong', 'backward', 'python'),
        (
            31, 'torch/autograd/', 'python_function', '(^|/)torch/autograd/__init__\.py\(\d+\): (backward|grad)$',
            'strong', 'backward', 'python'
        ),
        (
            32, 'zero_grad', 'python_function', '(^|/)torch/optim/optimizer\.py\(\d+\): zero_grad$',
            'strong', 'zero_grad', 'python'
        ),
        (
            33, 'torch/optim/', 'python_function', '(^|/)torch/optim/\w+\.py\(\d+\): step$',
            'strong', 'optimizer', 'python'
        ),
        (
            34, 'grad_scaler', 'python_function',
            '(^|/)torch/(cuda/)?amp/grad_scaler\.py\(\d+\): (step|unscale_|update)$',
            'strong', 'optimizer', 'python'
        ),
        (
            35, 'clip_grad', 'python_function', '(^|/)torch/nn/utils/clip_grad\.py\(\d+\): ',
            'strong', 'optimizer', 'python'
        ),
        (
            36, 'dataloader', 'python_function', '(^|/)torch/utils/data/dataloader\.py\(\d+\): (__next__|__iter__)$',
            'strong', 'load_data', 'python'
        ),
        (
            37, 'synchronize', 'python_function', '(^|/)torch/\w+/__init__\.py\(\d+\): synchronize$',
            'aside', 'other', 'python'
        ),
        (40, 'nn.module: ', 'python_function', '^nn\.Module: \w*(Loss|Criterion)\w*_\d+$', 'weak', 'loss', 'python'),
        (41, 'nn.module: ', 'python_function', '^nn\.Module: ', 'weak', 'forward', 'python'),
        (
            42, 'functional.py', 'python_function',
            '(^|/)torch/nn/functional\.py\(\d+\): (cross_entropy|\w+_loss|binary_cross_entropy\w*|kl_div)$',
            'weak', 'loss', 'python'
        ),
        (43, 'forward', 'python_function', '\.py\(\d+\): forward$', 'weak', 'forward', 'python'),
        -- ops and calls
        (50, 'aten::', 'cpu_op', '^aten::(\w+_loss\w*|binary_cross_entropy\w*|kl_div)$', 'weak', 'loss', 'op_name'),
        (51, 'fused', 'cpu_op', '^aten::_fused_(adam|adamw|sgd|adagrad)_?$', 'weak', 'optimizer', 'op_name'),
        (52, 'foreach_zero', 'cpu_op', '^aten::_foreach_zero_$', 'weak', 'zero_grad', 'op_name'),
        (53, 'synchronize', 'cuda_runtime', '^(cuda|hip)DeviceSynchronize$', 'aside', 'other', 'op_name'),
        -- a captured graph: of a model, unless the trace trains, where it may hold all of a step
        (54, 'graphlaunch', 'cuda_runtime', '^(cuda|hip)GraphLaunch$', 'aside', 'forward', 'op_name'),
        -- `record_function` makes a tensor before it starts an annotation (PyTorch before 2.0)
        (56, 'zeros', 'cpu_op', '^aten::zeros$', 'none', null, null),
        -- signs, which tell something where nothing shows a phase: a layer of a model; what may end a model; an update
        -- in place, as of optimizers; what clipping and unscaling of gradients begin with; reading a value back;
        -- putting a batch together; drawing at random, a batch or noise; and making what a model adds to its input
        -- (positions, masks, noise, first states)
        (70, 'torch', 'cpu_op', '^(Torch-Compiled Region|TorchDynamo Cache Lookup)', 'sign', 'layer', null),
        (
            71, 'aten::', 'cpu_op',
            '^aten::(linear|bilinear|matmul|mm|bmm|addmm|baddbmm|einsum|conv\w*[123]d|convolution|'
            || '(batch|layer|group|instance|rms)_norm|embedding(_bag)?|(lstm|gru|rnn_tanh|rnn_relu)(_cell)?|'
            || 'scaled_dot_product_attention|_transformer_encoder_layer_fwd|_native_multi_head_attention)$',
            'sign', 'layer', null
        ),
        (72, 'softmax', 'cpu_op', '^aten::(log_)?softmax$', 'sign', 'output', null),
        (73, 'sigmoid', 'cpu_op', '^aten::sigmoid$', 'sign', 'output', null),
        (
            74, 'aten::', 'cpu_op',
            '^aten::((relu|gelu|elu|silu|mish|tanh|leaky_relu|hardswish|dropout|softplus)_?|\w*_pool\dd|upsample_\w+|'
            || 'scatter\w*|index_(select|add)_?|segment_reduce)$',
            'sign', 'activation', null
        ),
        (75, 'foreach_zero', 'cpu_op', '^aten::_foreach_zero_$', 'sign', null, null),
        (
            76, 'aten::', 'cpu_op',
            '^aten::(_fused_\w+_|_foreach_\w+_|(add|sub|mul|div|addcmul|addcdiv|lerp|sqrt|neg|clamp(_min|_max)?)_)$',
            'sign', 'update', null
        ),
        (77, 'norm', 'cpu_op', '^aten::(linalg_vector_norm|_foreach_norm|norm)$', 'sign', 'clip', null),
        (78, 'unscale', 'cpu_op', '^aten::_amp_foreach_non_finite_check_and_unscale_$', 'sign', 'clip', null),
        (79, 'aten::', 'cpu_op', '^aten::(item|is_nonzero|resolve_neg)$', 'sign', 'read', null),
        (80, '_amp_update_scale_', 'cpu_op', '^aten::_amp_update_scale_$', 'sign', 'rescale', null),
        (81, 'aten::', 'cpu_op', '^aten::(stack|detach_|_?pin_memory|randperm)$', 'sign', 'fetch', null),
        (
            82, 'aten::', 'cpu_op', '^aten::(randn?|randint|(normal|uniform|random)_?|bernoulli)$',
            'sign', 'draw', null
        ),
        (
            83, 'aten::', 'cpu_op',
            '^aten::(arange|linspace|zeros|ones|full|eye|new_(zeros|ones|full)|(zeros|ones|full|randn?|randint)_like|'
            || 'sin|cos)$',
            'sign', 'create', null
        ),
        -- buckets
        (
            60, 'accumulategrad', 'cpu_op', '^(autograd::engine::evaluate_function: )?torch::autograd::AccumulateGrad$',
            'bucket', 'gradient_accumulation', null
        ),
        (
            61, '', 'cpu_op', '^(torch::distributed::|torch\.distributed\.|c10d::|nccl:|record_param_comms$)',
            'bucket', 'communication', null
        ),
        (62, '', 'user_annotation', '^(nccl|gloo|mpi|ucc):', 'bucket', 'communication', null),
        -- ops that only describe or allocate tensors, or convert them if they must, by an op inside: the views of
        -- PyTorch's page "Tensor views", and what native_functions.yaml registers beside them
        (
            90, 'aten::', 'cpu_op',
            '^aten::(_?(un)?(reshape|view|squeeze|flatten|fold|safe_view)\w*|_reshape_alias|as_strided_?|expand(_as)?|'
            || 'select|slice|narrow|diagonal|t|T|H|mT|mH|adjoint|(num)?py_T|transpose_?|permute|movedim|moveaxis|'
            || 'swap(axes|dims)|unbind|(h|v|d|tensor_)?split(_with_sizes)?|chunk|real|imag|view_as\w*|indices|values|'
            || 'alias|detach_?|lift(_fresh)?|empty\w*|new_empty\w*|_?resize\w*|set_|to|type_as|contiguous|item|'
            || 'result_type|is_\w+|requires_grad_|size|stride|resolve_(conj|neg)|record_stream|_has_\w+|_local_\w+)$',
            'metadata', null, null
        ),
        (91, 'dynamo', 'cpu_op', '^TorchDynamo Cache Lookup', 'metadata', null, null)
    ) as rules (priority, word, category, pattern, kind, label, evidence)
),

-- Names that a rule may match, each with its shape: the name without its numbers. No rule depends on a number in a name
-- (but a short one in a word, such as `c10d`); steps, lines of files, and names that a program makes have many.
names as (
    select
        category,
        name,
        is_blocking,
        regexp_replace(name, '([^a-zA-Z0-9])\d\d+|\d\d\d+', '\100', 'g') as shape
    from name_info
    where category in ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime', 'cuda_driver')
),

shapes as (
    select distinct
        category,
        shape
    from names
),

-- The rule of each kind that counts for a shape.
shape_rule as (
    select
        shapes.category,
        shapes.shape,
        rule.kind,
        rule.label,
        rule.evidence
    from shapes
    inner join rule
        on
            shapes.category = rule.category
            -- not AND, which the database evaluates in an order of its own: a pattern costs a hundred times the word
            and case when contains(lower(shapes.shape), rule.word) then regexp_matches(shapes.shape, rule.pattern) end
    qualify
        row_number() over (
            partition by
                shapes.category, shapes.shape, case when rule.kind in ('bucket', 'sign', 'metadata') then rule.kind end
            order by rule.priority
        ) = 1
),

-- Names with the rules of their shape; one row without a rule for a call that blocks.
name_rule as (
    select
        names.category,
        names.name,
        names.is_blocking,
        shape_rule.kind,
        shape_rule.label,
        shape_rule.evidence
    from names
    left join shape_rule on names.category = shape_rule.category and names.shape = shape_rule.shape
    where shape_rule.kind is not null or names.is_blocking
)

select
    row_number() over (order by category, name) as class_id,
    category,
    name,
    max(label) filter (where kind = 'strong') as strong_phase,
    max(label) filter (where kind = 'weak') as weak_phase,
    max(label) filter (where kind = 'aside') as aside_phase,
    max(label) filter (where kind = 'bucket') as bucket,
    max(label) filter (where kind = 'sign') as sign,
    max(evidence) filter (where kind not in ('bucket', 'sign', 'metadata')) as evidence,
    coalesce(bool_or(evidence = 'autograd'), false) as is_node,
    category = 'python_function' and starts_with(name, 'nn.Module: ') as is_module,
    bool_or(is_blocking) as is_sync,
    coalesce(bool_or(kind = 'metadata'), false) as is_metadata
from name_rule
group by category, name
order by category, name
