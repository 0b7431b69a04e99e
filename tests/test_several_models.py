"""Several models of one training: each op belongs to the model whose forward ran it, with stacks and without."""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import copy
import gzip
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.profiler import profile, record_function, schedule  # noqa: E402

import hotline_analysis as ha  # noqa: E402
from hotline_analysis.capture.several import CallOrder, Learners  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")

Around = Callable[[str], AbstractContextManager[Any]]
"""What a loop puts around each call of a model, by its name."""
Loop = tuple[dict[str, nn.Module], Callable[[Around], None]]
"""The models of a loop, and one step of it. A module of two models has the name that it has in the first of them."""

WARMUP, ACTIVE = 1, 2


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(True), nn.Linear(32, 16), nn.Tanh())

    def forward(self, noise: Tensor) -> Tensor:
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(32, 1))

    def forward(self, image: Tensor) -> Tensor:
        return self.main(image).flatten()


class Residual(nn.Module):
    """Ops of its own stand between those of its modules."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(16, 16)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU()) for _ in range(blocks)
        )
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(mean) * (0.5 * variance).exp())


class Headed(nn.Module):
    """A head on an encoder that another model has, too."""

    def __init__(self, encoder: nn.Module, outputs: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x)).tanh()


class Gated(nn.Module):
    """Evaluation takes another way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.act = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()
        self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.act(self.norm(self.first(x))))
        return self.last(functional.dropout(x, 0.1) if self.training else x * 2)


class Holds(nn.Module):
    """Calls a model that is no module of this one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.held = [inner]

    def forward(self, x: Tensor) -> Tensor:
        return self.held[0](x)


def adversarial() -> Loop:
    """The discriminator is called twice in its own step, and once, frozen, in that of the generator."""
    generator, discriminator = Generator(), Discriminator()
    optimizers = [torch.optim.Adam(model.parameters()) for model in (generator, discriminator)]

    def step(around: Around) -> None:
        discriminator.requires_grad_(True)
        optimizers[1].zero_grad()
        noise, real = torch.randn(8, 8), torch.randn(8, 16)
        with around("generator"):
            fake = generator(noise)
        with around("discriminator"):
            of_real = discriminator(real)
        detached = fake.detach()
        with around("discriminator"):
            of_fake = discriminator(detached)
        (of_fake.mean() - of_real.mean()).backward()
        optimizers[1].step()
        discriminator.requires_grad_(False)
        optimizers[0].zero_grad()
        with around("discriminator"):
            of_fake = discriminator(fake)
        (-of_fake.mean()).backward()
        optimizers[0].step()

    return {"generator": generator, "discriminator": discriminator}, step


def distillation() -> Loop:
    """Teacher and student are of one class; the teacher is frozen and larger."""
    teacher, student = Residual(3).eval().requires_grad_(False), Residual(1)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)

    def step(around: Around) -> None:
        x = torch.randn(8, 16)
        with torch.no_grad(), around("teacher"):
            wanted = teacher(x)
        with around("student"):
            given = student(x)
        loss = functional.kl_div(given.log_softmax(1), wanted.softmax(1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return {"teacher": teacher, "student": student}, step


def average() -> Loop:
    """Model and moving average run the same ops; the average is given first and runs last."""
    model = Residual()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(around: Around) -> None:
        x = torch.randn(8, 16)
        with around("model"):
            given = model(x)
        with torch.no_grad(), around("average"):
            wanted = average(x)
        optimizer.zero_grad()
        functional.mse_loss(given, wanted).backward()
        optimizer.step()

    return {"average": average, "model": model}, step


def online_and_target() -> Loop:
    online = Residual()
    target = copy.deepcopy(online).requires_grad_(False)
    predictor = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], 0.1)

    def step(around: Around) -> None:
        views = torch.randn(2, 8, 16).unbind()
        predicted, wanted = [], []
        for view in views:
            with around("online"):
                z = online(view)
            with around("predictor"):
                predicted.append(predictor(z))
        for view in views:
            with torch.no_grad(), around("target"):
                wanted.append(target(view))
        loss = functional.mse_loss(predicted[0], wanted[1]) + functional.mse_loss(predicted[1], wanted[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return {"online": online, "target": target, "predictor": predictor}, step


def actor_and_critic() -> Loop:
    """Both have the same layers. A rollout without gradients comes before the updates."""
    actor, critic = (
        nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, outputs))
        for outputs in (3, 1)
    )
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])

    def step(around: Around) -> None:
        seen = torch.randn(4, 6)
        for _ in range(3):
            with torch.no_grad():
                with around("actor"):
                    logits = actor(seen)
                with around("critic"):
                    critic(seen)
            seen = seen + logits.softmax(1).mean()
        for _ in range(2):
            with around("actor"):
                logits = actor(seen)
            with around("critic"):
                value = critic(seen)
            optimizer.zero_grad()
            (logits.log_softmax(1)[:, 0] * value.detach()[:, 0] + value[:, 0].square()).mean().backward()
            optimizer.step()

    return {"actor": actor, "critic": critic}, step


def cycle() -> Loop:
    """Two pairs of models that look alike, in another order in forward than in the list."""
    there = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    back = copy.deepcopy(there)
    one, other = Discriminator(), Discriminator()
    optimizer = torch.optim.Adam([*there.parameters(), *back.parameters()])

    def step(around: Around) -> None:
        a, b = torch.randn(2, 8, 16).unbind()
        with around("there"):
            fake_b = there(a)
        with around("back"):
            again_a = back(fake_b)
        with around("back"):
            fake_a = back(b)
        with around("there"):
            again_b = there(fake_a)
        with around("other"):
            of_b = other(fake_b)
        with around("one"):
            of_a = one(fake_a)
        optimizer.zero_grad()
        (functional.l1_loss(again_a, a) + functional.l1_loss(again_b, b) - of_a.mean() - of_b.mean()).backward()
        optimizer.step()

    return {"there": there, "back": back, "one": one, "other": other}, step


def autoencoder_and_discriminator() -> Loop:
    model, discriminator = Autoencoder(), Discriminator()
    optimizers = [torch.optim.Adam(each.parameters()) for each in (model, discriminator)]

    def step(around: Around) -> None:
        x = torch.randn(8, 16)
        with around("autoencoder"):
            again = model(x)
        with around("discriminator"):
            of_fake = discriminator(again)
        optimizers[0].zero_grad()
        (functional.mse_loss(again, x) - of_fake.mean()).backward()
        optimizers[0].step()
        detached = again.detach()
        with around("discriminator"):
            of_real = discriminator(x)
        with around("discriminator"):
            of_fake = discriminator(detached)
        optimizers[1].zero_grad()
        (of_fake.mean() - of_real.mean()).backward()
        optimizers[1].step()

    return {"autoencoder": model, "discriminator": discriminator}, step


def part_by_itself() -> Loop:
    """The decoder runs inside the model and alone: both are `autoencoder.decoder`."""
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters())

    def step(around: Around) -> None:
        x, noise = torch.randn(8, 16), torch.randn(8, 4)
        with around("autoencoder"):
            again = model(x)
        with around("autoencoder.decoder"):
            sample = model.decoder(noise)
        optimizer.zero_grad()
        (functional.mse_loss(again, x) + sample.mean()).backward()
        optimizer.step()

    return {"autoencoder": model, "decoder": model.decoder}, step


def shared_encoder() -> Loop:
    """The encoder is listed under the first model only, as `named_modules` does."""
    encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
    actor, critic = Headed(encoder, 3), Headed(encoder, 1)
    optimizer = torch.optim.SGD([*actor.parameters(), *critic.head.parameters()], 0.1)

    def step(around: Around) -> None:
        x = torch.randn(8, 6)
        with around("actor"):
            probability = actor(x)
        with around("critic"):
            value = critic(x)
        optimizer.zero_grad()
        (probability.mean() + value.mean()).backward()
        optimizer.step()

    return {"actor": actor, "critic": critic}, step


def evaluation() -> Loop:
    """In the recorded steps, the first model also takes a way that was not learned; its ops look like the other's."""
    model, head = Gated(), nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    count = 0

    def step(around: Around) -> None:
        nonlocal count
        x = torch.randn(8, 8)
        with around("model"):
            y = model(x)
        with around("head"):
            given = head(y)
        optimizer.zero_grad()
        given.mean().backward()
        optimizer.step()
        count += 1
        if count > WARMUP:
            model.eval()
            with torch.no_grad():
                with around("model"):
                    y = model(x)
                with around("head"):
                    head(y)
            model.train()

    return {"model": model, "head": head}, step


def given_models(loop: Loop) -> dict[str, nn.Module]:
    """The models in another order than the loop has them: a part comes before the model that holds it."""
    return dict(reversed(loop[0].items())) if "decoder" in loop[0] else loop[0]


def called(make: Callable[[], Loop]) -> Counter[str]:
    """How often each module is called in the recorded steps, by hooks and without a profiler."""
    torch.manual_seed(0)
    models, step = make()
    names: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for name, model in models.items():
        for path, module in model.named_modules():
            if id(module) not in names:
                names[id(module)] = f"{name}.{path}" if path else name
                module.register_forward_hook(lambda each, *_: counts.update([names[id(each)]]))
    for number in range(WARMUP + ACTIVE):
        if number == WARMUP:
            counts.clear()
        step(lambda _: nullcontext())
    return counts


def recorded(make: Callable[[], Loop], path: Path, *, stacks: bool, **arguments: Any) -> Any:
    torch.manual_seed(0)
    _, step = loop = make()
    handler = ha.analyze(given_models(loop), path, report_format=None, when="now", sample=False, **arguments)
    plan = schedule(wait=0, warmup=WARMUP, active=ACTIVE, repeat=1)
    with profile(schedule=plan, on_trace_ready=handler, with_stack=stacks) as profiler:
        for _ in range(WARMUP + ACTIVE):
            step(lambda name: record_function(f"call of {name}"))
            profiler.step()
    return handler


# The ops inside of each call of a model, and the calls of models on the trace, with the region around each.
OPS = """
    with region as (
        select rank, event_id, substring(name, 9) as model, start_ns, end_ns, track_id
        from event where name like 'call of %' and category = 'user_annotation'
    )
    select region.model, model_op.path, event.name
    from event
    inner join region
        on event.track_id = region.track_id and event.start_ns between region.start_ns and region.end_ns - 1
    inner join label on event.event_id = label.event_id
    left join model_op on label.module_id = model_op.module_id
    where event.category = 'cpu_op' and event.name not like 'profiler::%'
"""
OUTSIDE = """
    select event.name
    from event
    inner join label using (rank, event_id)
    inner join model_op using (rank, module_id)
    where
        event.category = 'cpu_op' and label.pass = 'forward'
        and not exists (
            select 1 from event as region
            where
                region.name like 'call of %' and region.category = 'user_annotation'
                and region.track_id = event.track_id
                and event.start_ns between region.start_ns and region.end_ns - 1
        )
"""
SPANS = """
    select path, count(*) as n from module_span inner join model_op using (rank, module_id)
    where pass = 'forward' group by path
"""
BACKWARD = """
    select path, count(*) as n from label
    inner join event using (rank, event_id) inner join model_op using (rank, module_id)
    where pass = 'backward' and category = 'cpu_op' group by path order by path
"""
LOOPS = [
    adversarial,
    average,
    evaluation,
    *(
        pytest.param(loop, marks=pytest.mark.long)
        for loop in (
            *(distillation, online_and_target, actor_and_critic, cycle),
            *(autoencoder_and_discriminator, part_by_itself, shared_encoder),
        )
    ),
]


@pytest.mark.parametrize("make", LOOPS)
def test_ops_belong_to_the_model_that_ran_them(make: Callable[[], Loop], tmp_path: Path) -> None:
    """Truth: regions around the calls, and hooks that count calls under the names of `named_modules()`."""
    truth = called(make)
    backward = []
    runs = []
    for stacks in (False, True):
        path = tmp_path / f"{stacks}.hotline"
        recorded(make, path, stacks=stacks)
        runs.append(path)
        with ha.load(path) as run:
            ops = run.sql(OPS).rows()
            assert len(ops) > 50
            shared = "actor.encoder" if make is shared_encoder else None
            wrong = [
                (model, place, name)
                for model, place, name in ops
                if place is None or not (f"{place}.".startswith((f"{model}.", f"{shared}.")))
            ]
            assert wrong == []
            assert run.sql(OUTSIDE).rows() == []
            assert dict(run.sql(SPANS).rows()) == truth
            backward.append(run.sql(BACKWARD).rows())
            if not stacks:
                assert run.sql("select min(confidence_pct) from module_span").item() == 100.0
                assert run.sql("select count(*) from captured_op").item() > 100
    assert backward[0] == backward[1]
    with ha.load(runs[0]) as without, ha.load(runs[1]) as with_stacks:
        rows = ha.diff(without, with_stacks, by="module")
    # Python of a module before its first op is known from frames only: such a module may be added.
    with_ops = rows.filter(rows["module_path"].is_not_null() & (rows["b_count"] > 0))
    assert with_ops.height > 3
    assert set(rows["module_path"].drop_nulls()) <= set(truth)
    assert set(with_ops["change"]).isdisjoint({"added", "removed"})
    assert with_ops["a_count"].to_list() == with_ops["b_count"].to_list()


# --- names and mistakes ----------------------------------------------------------------------------------------------


def names_of(given: Any, tmp_path: Path) -> list[str]:
    handler = ha.analyze(given, tmp_path / "run.hotline", sample=False)
    learned = handler.model_ops
    assert learned is not None
    return [path for path in learned.modules["path"] if "." not in path]


def test_models_of_a_list_have_the_names_of_their_classes(tmp_path: Path) -> None:
    generator, discriminator = Generator(), Discriminator()
    assert names_of([generator, discriminator], tmp_path) == ["Generator", "Discriminator"]
    assert names_of((Residual(), generator, Residual()), tmp_path) == ["Residual_0", "Generator", "Residual_1"]
    assert names_of(nn.ModuleList([generator, discriminator]), tmp_path) == ["Generator", "Discriminator"]
    assert names_of([nn.DataParallel(generator), torch.compile(discriminator, backend="eager")], tmp_path) == [
        "Generator",
        "Discriminator",
    ]


def test_models_of_a_dict_have_its_keys(tmp_path: Path) -> None:
    generator, discriminator = Generator(), Discriminator()
    assert names_of({"netG": generator, "net D": discriminator}, tmp_path) == ["netG", "net D"]
    assert names_of({0: generator, 1: discriminator}, tmp_path) == ["0", "1"]
    assert names_of(nn.ModuleDict({"g": generator, "d": discriminator}), tmp_path) == ["g", "d"]


def test_a_list_with_one_model_is_this_model(tmp_path: Path) -> None:
    one, other = (ha.analyze(given, tmp_path / "run.hotline").model_ops for given in ([Generator()], Generator()))
    assert one is not None
    assert other is not None
    assert one.content == other.content


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the list has no model"),
        ({}, "the list has no model"),
        ({"": nn.ReLU()}, "'' is not a name"),
        ({"a.b": nn.ReLU()}, "'a.b' is not a name"),
        ({None: nn.ReLU()}, "None is not a name"),
        ({"a\nb": nn.ReLU()}, r"'a\\nb' is not a name"),
        ({0: nn.ReLU(), "0": nn.ReLU()}, "two models have the name '0'"),
        ([nn.ReLU(), "trace.json"], "model 1 of the list is a str, not a torch"),
        ({"one": nn.ReLU(), "other": nn.ReLU}, "model 'other' is the class ReLU, not a torch"),
    ],
)
def test_a_mistake_is_one_sentence_at_once(given: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ha.HotlineError, match=message):
        ha.analyze(given, tmp_path / "run.hotline")


def test_a_model_is_given_once(tmp_path: Path) -> None:
    model = Generator()
    with pytest.raises(ha.HotlineError, match="model 1 of the list is the same module as model 0 of the list"):
        ha.analyze([model, model], tmp_path / "run.hotline")
    with pytest.raises(ha.HotlineError, match="model 'compiled' is the same module as model 'plain'"):
        ha.analyze({"plain": model, "compiled": torch.compile(model, backend="eager")}, tmp_path / "run.hotline")


def test_inputs_are_those_of_each_model(tmp_path: Path) -> None:
    models = {"g": Generator(), "d": Discriminator()}
    of_list, of_dict = (
        ha.analyze(models, tmp_path / "run.hotline", inputs=inputs, sample=False).model_ops
        for inputs in (
            [torch.ones(2, 8), {"image": torch.ones(2, 16)}],
            {"d": (torch.ones(2, 16),), "g": torch.ones(2, 8)},
        )
    )
    assert of_list is not None
    assert of_dict is not None
    assert of_list.content["models"] == of_dict.content["models"]
    assert [model["order"] for model in of_list.content["models"]] == ["execution", "execution"]
    with pytest.raises(ha.HotlineError, match="the inputs do not fit the 2 models: g, d"):
        ha.analyze(models, tmp_path / "run.hotline", inputs=torch.ones(2, 8))


# --- what is learned -------------------------------------------------------------------------------------------------


def content(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        stored: dict[str, Any] = json.load(stream)["hotline_model"]
    return stored


def test_shapes_are_learned_of_all_models_forward_and_backward() -> None:
    """The generator's first output is detached: its backward pass comes with the second of the step."""
    torch.manual_seed(0)
    models, step = adversarial()
    learners = Learners(models)
    step(lambda _: nullcontext())
    learners.close()
    learned = learners.result().content
    assert learners.hooks == 0
    shapes = learned["shapes"]
    assert len(shapes["ops"]) == len(learned["ops"])
    assert None not in shapes["ops"]
    ranges = {model["name"]: range(*model["ops"]) for model in learned["models"]}
    nodes = {name: [op for op, _, _ in shapes["nodes"] if op in ops] for name, ops in ranges.items()}
    # Each layer has a node: of two linears, a norm, a ReLU and a tanh; of two linears, an activation and a dropout.
    assert len(nodes["generator"]) >= 5
    assert len(nodes["discriminator"]) >= 4
    for op, place, tree in shapes["nodes"]:
        assert place < len(shapes["trees"][shapes["ops"][op]]) // 2
        assert shapes["names"][shapes["trees"][tree][0]].startswith("autograd::engine::evaluate_function")


def test_the_order_of_calls_is_that_of_a_step_and_no_hook_is_left_when_it_is_recorded(tmp_path: Path) -> None:
    models, step = adversarial()
    handler = ha.analyze(models, tmp_path / "run.hotline", report_format=None, when="later", sample=False)
    counts = []
    with profile(schedule=schedule(wait=1, warmup=1, active=1), on_trace_ready=handler) as profiler:
        for number in range(3):
            if number == 2:
                counts.append(sum(len(each._forward_hooks) for each in models.values()))
                counts.append(sum(len(each._forward_pre_hooks) for each in models.values()))
            step(lambda _: nullcontext())
            profiler.step()
    assert counts == [0, 0]
    stored = content(tmp_path / "run.json.gz")
    assert stored["calls"] == [[0, 1], [1, 1], [1, 1], [1, 0]]  # the discriminator is frozen in its last call
    assert stored["models"][0] | {"ops": None} == {
        "name": "generator",
        "module_id": 0,
        "order": "execution",
        "ops": None,
    }


def test_a_call_inside_another_model_is_no_call_of_the_step() -> None:
    inner = nn.ReLU()
    outer = Holds(inner)
    order = CallOrder([outer, inner])
    for _ in range(2):
        outer(torch.ones(1))
        inner(torch.ones(1))
        inner(torch.ones(1))
    order.close()
    assert [number for number, _ in order.result()] == [0, 1, 1]
    assert order.hooks == 0


def test_a_model_that_runs_only_inside_another_has_a_note() -> None:
    inner = nn.Linear(2, 2)
    learners = Learners({"outer": Holds(inner), "inner": inner})
    learners._models["outer"](torch.ones(1, 2))
    learners.close()
    learned = learners.result()
    assert learned.notes == [
        "inner: no forward pass was seen outside another given model: the modules are in registration order"
    ]
    assert learned.not_seen == learned.notes


def test_a_compiled_model_has_the_time_of_its_code(tmp_path: Path) -> None:
    generator, discriminator = Generator(), Discriminator()
    compiled = torch.compile(generator, backend="eager")
    compiled(torch.randn(8, 8))
    handler = ha.analyze(
        {"generator": compiled, "discriminator": discriminator},
        tmp_path / "run.hotline",
        report_format=None,
        when="now",
    )
    with profile(schedule=schedule(wait=0, warmup=1, active=2), on_trace_ready=handler) as profiler:
        for _ in range(3):
            noise = torch.randn(8, 8)
            with record_function("call of generator"):
                fake = compiled(noise)
            with record_function("call of discriminator"):
                discriminator(fake)
            profiler.step()
    with ha.load(tmp_path / "run.hotline") as run:
        assert dict(run.sql(SPANS).rows())["generator"] == dict(run.sql(SPANS).rows())["discriminator"] == 2
        wrong = [row for row in run.sql(OPS).rows() if row[1] is None or not f"{row[1]}.".startswith(f"{row[0]}.")]
        assert wrong == []
