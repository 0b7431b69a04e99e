-- Kernels by name. The class, the unit and the short form of a name are in the files of `rules`.

-- Whether a kernel or copy moves a tensor within the memory of the GPU, by the short name: PyTorch's copy kernels,
-- concatenation, and copies from device to device.
create or replace macro is_move_on_device(short_name) as
regexp_matches(short_name, '^(elementwise \w*copy|CatArrayBatchedCopy|Memcpy DtoD|CopyDeviceToDevice)');

-- Whether a kernel changes the memory layout of a tensor (cuDNN, MIOpen).
create or replace macro is_layout_kernel(name) as
regexp_matches(name, 'nchwToNhwc|nhwcToNchw|batched_transpose');

-- Whether a kernel adds the bias of a convolution (MIOpen).
create or replace macro is_bias_kernel(name) as
regexp_matches(name, 'FwdBias|TensorBias');

-- Whether a kernel sorts (CUB, Thrust, rocPRIM).
create or replace macro is_sort_kernel(name) as
regexp_matches(name, '[sS]ort');
