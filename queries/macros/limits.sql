-- Numbers that decide, and where each comes from. Those that a user can set stand in the headers of the queries.

-- Nanoseconds after a launch call in which its work starts, unless something holds it up: 50 us, ten times what it
-- takes. In two traces of training (V100, A100), 99.9 % of the work that is launched onto an idle device starts within
-- 4 us after the call. HTA has the same limit for the call itself (`runtime_cutoff`).
create or replace macro launch_effect_ns() as
50000;

-- Nanoseconds after which work has started once nothing holds it up, so that a longer wait is for something else:
-- 10 us, the usual time from a launch call to its work (6 to 14 us in traces of A100, H100 and V100), where the gap
-- between two kernels of a stream is 1 to 3 us.
create or replace macro settled_ns() as
10000;

-- Nanoseconds between two kernels that are usual where nothing is waited for: 30 us. HTA's default of
-- `consecutive_kernel_delay`, whose times are in microseconds.
create or replace macro kernel_spacing_ns() as
30000;

-- Nanoseconds by which times can be off that the profiler rounds: a microsecond, as old versions write.
create or replace macro rounding_ns() as
1000;

-- Launches that can be pending on a stream before the next one waits. That there are 1,024 is known from measurement
-- only; a thousand is near enough.
create or replace macro most_pending() as
1000;

-- Nanoseconds that a call takes if it sets up a GPU or loads code: a millisecond, a hundred times what a launch
-- takes.
create or replace macro first_call_ns() as
1000000;

-- Clocks are compared along chains of at most so many ranks: two for each process group on the way, and jobs have three
-- or four kinds of groups (data, tensor, pipeline, expert). Our choice: twice that.
create or replace macro most_clock_hops() as 16;

-- Nanoseconds that the clocks of ranks drift apart in a recording, beside the error that is measured: a
-- millisecond. Our choice.
create or replace macro clock_drift_ns() as
1000000;

-- Nanoseconds from the middle of a recording to its ends, at most: ten days, which no file holds the
-- events of. Our choice: a time that is damaged is off by far more.
create or replace macro longest_recording_ns() as
864000000000000;

-- Per cent of its model's memory from which on a device has all of it: 90. The driver keeps some, and on boards with
-- GDDR6 error correction takes a sixteenth; the largest slice that is less than the whole has half.
create or replace macro whole_memory_pct() as
90;

-- Bytes of shared memory that a block can have without asking for more: 48 KiB. CUDA C++ Programming Guide, "Compute
-- Capabilities".
create or replace macro default_shared_bytes() as
49152;

-- Per cent of a step from which on start-up work makes it a warm-up step: 5. Our choice: less does not change what a
-- report says.
create or replace macro start_up_pct() as
5;

-- Per cent of a step from which on a phase or region that some steps lack makes the steps with it a kind of their own:
-- 5. Our choice: less does not change what a report says.
create or replace macro kind_part_pct() as
5;

-- How many times as long as the next shorter one a step is that begins another kind, however few there are: half as
-- long again. Our choice: four steps that each write a file and wait for the disk differed by a third.
create or replace macro kind_gap() as
1.5;

-- The same where the shorter steps show how little they differ: a tenth longer. By so much times of one program differ
-- when it runs again (`HOST_NOISE` of the predictions).
create or replace macro least_kind_gap() as
1.1;

-- Steps from which on a group of equally long steps is a pattern of its own: 3, the fewest whose distances can be
-- equal.
create or replace macro steps_of_pattern() as
3;

-- Rounds of a loop from which on it is worth writing without the loop: 10. `ForLoopIndexingPattern` in
-- torch/profiler/_pattern_matcher.py.
create or replace macro least_loop_rounds() as
10;

-- Ops in a row that make one value at most: 16. Our choice: twice the eight that a norm, a histogram or a quantile of a
-- tensor calls, and less than most layers of a model.
create or replace macro most_ops_of_value() as
16;

-- Rounds of a loop from which on they are no layers of a model, where it is unknown which slices they take: 100. GPT-3,
-- the deepest of the usual ones, has 96 layers (Brown et al., "Language Models are Few-Shot Learners", table 2.1).
create or replace macro most_layers() as
100;

-- Nanoseconds in which a thread runs again once its wait is over: 24 ms, the period in which Linux lets each of a CPU's
-- threads run once, on a machine whose CPUs are busy (`sysctl_sched_latency` in kernel/sched/fair.c: 6 ms times 1 + the
-- logarithm of the number of CPUs, which counts 8 at most).
create or replace macro wake_up_ns() as
24000000;

-- Nanoseconds that two threads need to hand work over and come back: 50 us, ten times a wake-up on an idle CPU. Two
-- threads that work side by side may pause together for less than that by chance. Our choice.
create or replace macro thread_switch_ns() as
50000;

-- Nanoseconds in a row from which on python is a stretch of its own, and not what a model runs between its ops: a
-- millisecond, over ten times what the python of a module takes. Our choice.
create or replace macro long_python_ns() as
1000000;
