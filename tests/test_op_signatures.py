"""Where the rules for the work of ops say that arguments are: against the schemas of torch."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import duckdb
import pytest

from hotline_analysis.database import install_macros

torch = pytest.importorskip("torch")

FILE = Path(__file__).parents[1] / "queries" / "rules" / "op_signatures.csv"
RULES = list(csv.DictReader(FILE.read_text().splitlines()))

# Roles that are positions, and how torch may name what is there.
ARGUMENTS = {
    "a": {"self", "mat1", "mat", "batch1", "input"},
    "b": {"mat2", "batch2", "vec", "vec2", "tensor", "other", "weight"},
    "c": {"self", "bias"},
    "beta": {"beta"},
    "out_dtype": {"out_dtype", "dtype", "input_dtype"},
    "scale_a": {"scale_a"},
    "scale_b": {"scale_b"},
    "offsets": {"offs"},
    "x": {"input", "self", "weight", "grad_output"},
    "w": {"weight"},
    "z": {"z"},
    "dy": {"grad_output", "grad_out", "grad_out_"},
    "bias": {"bias", "attn_bias"},
    "stride": {"stride"},
    "pad": {"padding"},
    "dilation": {"dilation"},
    "transposed": {"transposed"},
    "output_padding": {"output_padding"},
    "groups": {"groups"},
    "mask": {"output_mask"},
    "q": {"query"},
    "k": {"key"},
    "v": {"value"},
    "causal": {"is_causal", "custom_mask_type"},
    "lengths": {"cu_seqlens_q"},
    "max_q": {"max_q", "max_seqlen_q"},
    "max_k": {"max_k", "max_seqlen_k"},
    "mode": {"mode"},
    "hidden": {"hidden_size"},
    "proj": {"proj_size"},
    "layers": {"num_layers"},
    "bidirectional": {"bidirectional"},
    "training": {"training"},
    "to_float": {"half_to_float"},
    "dim": {"dim"},
    "index": {"indices", "index", "target"},
    "rows": {"num_weights"},
    "kernel": {"kernel_size"},
    "ceil": {"ceil_mode"},
    "reduction": {"reduction"},
}
# Roles that are numbers of the rule, or a position within the sizes of an operand.
NUMBERS = {
    *("result_bytes", "integer_bytes", "index_bytes", "is_sum", "steps", "passes", "keeps", "with_axis", "operands"),
    *("parts", "moves", "copies", "axes", "heads", "tokens", "bottom_right", "writes"),
    "arguments",
}
# Families where each overload has a rule that is right for it. Others tell overloads apart by what an argument holds.
EXACT = {
    *("gemm", "grouped_gemm", "linear", "convolution", "transposed_convolution", "convolution_backward", "attention"),
    *("attention_backward", "rnn", "rnn_backward", "normalisation"),
}
# Where `x` is what has the sizes of the result, or the gradient.
X = {
    "embedding_backward": {"grad_output"},
    "embedding": {"weight"},
    "pooling_backward": {"self"},
    "softmax": {"self", "grad_output"},
}


def roles(rule: dict[str, str]) -> dict[str, int]:
    pairs = (role.split("=") for role in rule["roles"].split())
    return {name: int(number) for name, number in pairs}


def signature(rule: dict[str, str]) -> dict[str, int]:
    """The positions that a rule gives, of what it takes for granted, too."""
    given = {role: place for role, place in roles(rule).items() if role not in NUMBERS}
    takes_first = rule["family"] in ("reduction", "softmax", "normalisation")
    return {"x": 0, **given} if takes_first else given


def schemas(name: str) -> list[list[tuple[str, str]]]:
    """Names and types of the arguments of each overload, but of those that are given a tensor for the result."""
    found = torch._C._jit_get_schemas_for_operator(name) or torch._C._jit_get_schemas_for_operator(f"{name}_")
    return [
        [(argument.name, str(argument.type)) for argument in schema.arguments]
        for schema in found
        if not re.search(r"(?i)^out|out$|output$|grad_input$", schema.overload_name)
    ]


SHIPPED = [rule for rule in RULES if rule["name"].startswith("aten::") and not rule["name"].endswith("*")]
ids = [rule["name"].removeprefix("aten::") for rule in SHIPPED]


def test_an_op_has_one_rule_for_each_number_of_arguments() -> None:
    names = [(rule["name"], roles(rule).get("arguments")) for rule in RULES]
    assert len(names) == len(set(names))


def test_a_role_is_known_and_written_once() -> None:
    for rule in RULES:
        assert len(roles(rule)) == len(rule["roles"].split()), rule
        assert set(roles(rule)) <= NUMBERS | set(ARGUMENTS), rule


def test_each_role_is_in_some_rule() -> None:
    used = {role for rule in RULES for role in roles(rule)}
    assert used == NUMBERS | set(ARGUMENTS)


def test_each_role_and_family_is_in_some_formula() -> None:
    text = "".join(path.read_text() for path in FILE.parents[1].glob("annotate/work/private/*.sql"))
    assert {role for role in NUMBERS | set(ARGUMENTS) if f"roles['{role}']" not in text} <= {"dy", "arguments"}
    assert {rule["family"] for rule in RULES if f"'{rule['family']}'" not in text} == set()


@pytest.mark.parametrize("rule", SHIPPED, ids=ids)
def test_arguments_are_where_torch_has_them(rule: dict[str, str]) -> None:
    positions = signature(rule)
    count = roles(rule).get("arguments")
    overloads = [arguments for arguments in schemas(rule["name"]) if count in (None, len(arguments))]
    assert overloads, f"torch has no {rule['name']} with {count} arguments"

    def is_right(arguments: list[tuple[str, str]], role: str, place: int) -> bool:
        names = X.get(rule["family"], ARGUMENTS["x"]) if role == "x" else ARGUMENTS[role]
        return place < len(arguments) and arguments[place][0] in names

    # Roles of one rule may be in different overloads: `mm` has `out_dtype` in one of two.
    wrong = {
        role
        for role, place in positions.items()
        if not any(is_right(arguments, role, place) for arguments in overloads)
    }
    assert not wrong


@pytest.mark.parametrize("name", sorted({rule["name"] for rule in SHIPPED if rule["family"] in EXACT}))
def test_every_overload_has_a_rule_that_is_right_for_it(name: str) -> None:
    """The number of arguments tells which rule counts."""
    rules = [rule for rule in SHIPPED if rule["name"] == name]
    for arguments in schemas(name):
        counts = [rule for rule in rules if roles(rule).get("arguments") in (None, len(arguments))]
        rule = min(counts, key=lambda rule: "arguments" not in roles(rule))
        for role, place in signature(rule).items():
            names = X.get(rule["family"], ARGUMENTS["x"]) if role == "x" else ARGUMENTS[role]
            # What an overload lacks stands behind all that it has.
            assert place >= len(arguments) or arguments[place][0] in names, (role, arguments)


@pytest.mark.parametrize("rule", [rule for rule in SHIPPED if "operands" in roles(rule)], ids=lambda rule: rule["name"])
def test_no_operand_is_left_out(rule: dict[str, str]) -> None:
    """In the overload with the most tensors, the last one is the last operand."""
    tensors = [
        place
        for arguments in schemas(rule["name"])
        for place, (_, kind) in enumerate(arguments)
        if "Tensor" in kind and "Tensor" in arguments[0][1]
    ]
    assert max(tensors) + 1 == roles(rule)["operands"]


@pytest.mark.parametrize(
    "rule", [rule for rule in SHIPPED if rule["family"] == "normalisation"], ids=lambda r: r["name"]
)
def test_a_gradient_is_not_taken_for_a_weight(rule: dict[str, str]) -> None:
    """Each argument of the size of the input is `x` or `dy`."""
    large = {"input", "grad_out", "grad_output"}
    given = {roles(rule).get("x", 0), roles(rule).get("dy", 0)}
    for arguments in schemas(rule["name"]):
        assert {place for place, (name, _) in enumerate(arguments) if name in large} == given


TYPES = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "bool",
)


@pytest.mark.parametrize(
    "name", [*TYPES, "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"]
)
@pytest.mark.filterwarnings("ignore")
def test_a_type_has_the_number_that_torch_gives_it(name: str) -> None:
    """An argument that is a type is recorded as its number; a graph of torch has it as a constant."""
    dtype = getattr(torch, name)
    graph = torch.jit.trace(lambda tensor: tensor.to(dtype), torch.zeros(1, dtype=torch.float64)).graph
    number = graph.findNode("aten::to").inputsAt(1).toIValue()
    with duckdb.connect() as connection:
        install_macros(connection)
        assert connection.execute("select bytes_of_type(?)", [str(number)]).fetchone() == (dtype.itemsize,)
