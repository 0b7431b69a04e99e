-- File access of calls, by name.

-- Whether a python frame or a user's region writes a file: calls of the operating system, save functions of libraries,
-- and regions with a name like "save".
create or replace macro is_writing_call(category, name) as
case
    when category = 'python_function'
        then
            regexp_matches(
                name,
                '^<built-in (function (fsync|fdatasync|sendfile)|method (write|writelines|flush|tofile) of _io\.\w+ )'
                || '|(^|/)torch/serialization\.py\(\d+\): save$|torchvision/utils\.py\(\d+\): save_image$'
                || '|(^|/)PIL/Image\.py\(\d+\): save$|(^|/)matplotlib/figure\.py\(\d+\): savefig$'
                || '|(^|/)numpy/lib/\w+\.py\(\d+\): save(z|txt|z_compressed)?$'
                || '|(^|/)safetensors/\w+\.py\(\d+\): save_file$'
                || '|(^|/)pandas/.*: to_(csv|parquet|json|pickle|feather)$|(^|/)json/__init__\.py\(\d+\): dump$'
                || '|(^|/)torch/utils/tensorboard/writer\.py\(\d+\): (add_\w+|flush)$'
                || '|(^|/)torch/distributed/checkpoint/.*: save$|(^|/)logging/__init__\.py\(\d+\): (emit|flush)$'
            )
    when category = 'user_annotation'
        then
            regexp_matches(
                name,
                '(?i)(^|[^a-z])(sav(e|es|ing)|writ(e|es|ing)|dump|fsync|model_?checkpoint|checkpoint(ing)?'
                || '|logger|tensorboard'
                || '|save_\w+|write_\w+)([^a-z]|$)'
            )
    else false
end;
