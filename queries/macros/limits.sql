-- Thresholds and their sources. Thresholds a user can set are parameters in the query headers.

-- Nanoseconds from a launch call to the start of the work, unless the work is held up: 50 us, ten times the usual
-- delay. In two training traces (V100, A100), 99.9 % of the work launched onto an idle device starts within 4 us after
-- the call. HTA has the same limit for the call itself (`runtime_cutoff`).
create or replace macro launch_effect_ns() as
50000;

-- Nanoseconds within which unblocked work starts; a longer wait has another cause. 10 us, the usual time from a launch
-- call to its work (6 to 14 us in traces of A100, H100 and V100). The gap between two kernels of a stream is 1 to 3 us.
create or replace macro settled_ns() as
10000;

-- Usual nanoseconds between two kernels without waiting: 30 us. HTA's default of `consecutive_kernel_delay`, whose
-- times are in microseconds.
create or replace macro kernel_spacing_ns() as
30000;

-- Largest rounding error of the profiler's times in nanoseconds: a microsecond, the resolution of old versions.
create or replace macro rounding_ns() as
1000;

-- Launches pending on a stream before the next launch waits. Measurements show 1,024; the limit is undocumented, and a
-- thousand is close enough.
create or replace macro most_pending() as
1000;

-- Nanoseconds from which on a call sets up a GPU or loads code: a millisecond, a hundred times the duration of a
-- launch.
create or replace macro first_call_ns() as
1000000;

-- Longest chain of ranks for comparing clocks. A path needs two ranks per process group, and jobs have three or four
-- kinds of groups (data, tensor, pipeline, expert). Our choice: twice that number.
create or replace macro most_clock_hops() as 16;

-- Clock drift between ranks during a recording in nanoseconds, on top of the measured error: a millisecond. Our choice.
create or replace macro clock_drift_ns() as
1000000;

-- Largest distance in nanoseconds from the middle of a recording to its ends: ten days. No file can hold ten days of
-- events. Our choice: damaged times are off by far more.
create or replace macro longest_recording_ns() as
864000000000000;

-- Nanoseconds by which GPU work may start before its launch: a millisecond. The profiler synchronises the GPU and CPU
-- clocks only now and then. Our choice; in 29 real traces, no work starts before its launch.
create or replace macro launch_skew_ns() as
1000000;

-- Nanoseconds after the last launch of a recording within which its work starts: 10 minutes. After 10 minutes, PyTorch
-- ends a waiting collective (`default_pg_nccl_timeout` in torch/distributed/constants.py).
create or replace macro longest_queue_ns() as
600000000000;

-- Nanoseconds by which work of one stream may overlap because of inexact times: 10 us. In 29 real traces, two launches
-- of a stream overlap by at most 3.7 us.
create or replace macro stream_overlap_ns() as
10000;

-- Most devices of one process: 64, eight MI300X with eight partitions each (CPX mode). With more distinct numbers, the
-- numbers are not device numbers.
create or replace macro most_devices() as
64;

-- Per cent of the model's memory from which on a device counts as a whole GPU: 90. The driver reserves some memory, and
-- GDDR6 boards with error correction reserve a sixteenth. The largest partial slice has half.
create or replace macro whole_memory_pct() as
90;

-- Bytes of shared memory available to a block by default: 48 KiB. CUDA C++ Programming Guide, "Compute Capabilities".
create or replace macro default_shared_bytes() as
49152;

-- Per cent of start-up work from which on a step is a warm-up step: 5. Our choice: a smaller part does not change a
-- report.
create or replace macro start_up_pct() as
5;

-- Per cent of a step from which on a phase or region, present only in some steps, makes these steps a kind of their
-- own: 5. Our choice: a smaller part does not change a report.
create or replace macro kind_part_pct() as
5;

-- Ratio to the next shorter step from which on a step begins another kind, however few the steps: 1.5. Our choice: four
-- steps, each writing a file and waiting for the disk, differed by a third.
create or replace macro kind_gap() as
1.5;

-- The same ratio if the shorter steps are known to differ little: 1.1. Times of one program vary by about a tenth
-- between runs (`HOST_NOISE` of the predictions).
create or replace macro least_kind_gap() as
1.1;

-- Fewest equally long steps that form a pattern: 3, the fewest with comparable distances.
create or replace macro steps_of_pattern() as
3;

-- Fewest rounds for which a loop is worth vectorising: 10. `ForLoopIndexingPattern` in
-- torch/profiler/_pattern_matcher.py.
create or replace macro least_loop_rounds() as
10;

-- Most consecutive ops for computing a value: 16. Our choice: twice the eight ops of a tensor's norm, histogram or
-- quantile, and fewer than the ops of most layers.
create or replace macro most_ops_of_value() as
16;

-- Fewest rounds at which a loop with unknown slices cannot be the layers of a model: 100. GPT-3, the deepest common
-- model, has 96 layers (Brown et al., "Language Models are Few-Shot Learners", table 2.1).
create or replace macro most_layers() as
100;

-- Nanoseconds within which a thread runs again after a wait: 24 ms. In this period, Linux runs each thread of a busy
-- CPU once (`sysctl_sched_latency` in kernel/sched/fair.c: 6 ms times 1 + the logarithm of the number of CPUs, counted
-- up to 8).
create or replace macro wake_up_ns() as
24000000;

-- Nanoseconds for two threads to hand over work and return: 50 us, ten times a wake-up on an idle CPU. Shorter common
-- pauses of two parallel threads may be chance. Our choice.
create or replace macro thread_switch_ns() as
50000;

-- Nanoseconds of continuous python from which on it is a stretch of its own, rather than a model's python between ops:
-- a millisecond, over ten times the python time of a module. Our choice.
create or replace macro long_python_ns() as
1000000;

-- Nanoseconds from which on a pause in autograd's call of a node is a hook: 100 us. Without hooks, half of the pauses
-- take less than 2 us, and 99 of 100 less than 50 us (16,000 pauses of three CPU loops on a busy machine).
create or replace macro hook_ns() as
100000;

-- Fewest events of a rank's process, in per cent of the events of the file's largest process: 1. Our choice: ranks of a
-- job record about the same number of events, and a damaged process id has few.
create or replace macro least_process_pct() as
1;
