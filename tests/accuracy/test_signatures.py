"""Positions of arguments in the rules for the work of ops, beside the schemas of the torch that is installed."""

from __future__ import annotations

from typing import Any

import pytest

from hotline_analysis import catalog

torch = pytest.importorskip("torch")

# What an argument that plays a role is called in torch's schemas.
NAMES = {
    "a": {"self", "mat1", "mat2", "batch1", "mat", "X", "input"},
    "b": {"mat2", "batch2", "vec", "tensor", "other", "weight", "W"},
    "c": {"self", "bias", "B"},
    "beta": {"beta"},
    "out_dtype": {"out_dtype", "dtype", "input_dtype"},
    "scale_a": {"scale_a"},
    "scale_b": {"scale_b"},
    "offsets": {"offs"},
    "x": {"input", "self"},
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
    "max_q": {"max_q", "max_seqlen_q"},
    "max_k": {"max_k", "max_seqlen_k"},
    "lengths": {"cu_seqlens_q"},
    "mode": {"mode"},
    "hidden": {"hidden_size"},
    "proj": {"proj_size"},
    "layers": {"num_layers"},
    "bidirectional": {"bidirectional"},
    "training": {"training"},
}
FAMILIES = {
    *("gemm", "grouped_gemm", "linear", "convolution", "transposed_convolution", "convolution_backward", "attention"),
    *("attention_backward", "rnn", "rnn_backward", "normalisation"),
}
Rule = dict[str, Any]


def roles_of(rule: Rule) -> dict[str, int]:
    return {role: int(number) for role, _, number in (part.partition("=") for part in rule["roles"].split())}


RULES: list[Rule] = [rule for rule in catalog.rules()["op_signatures"].to_pylist() if rule["family"] in FAMILIES]
SCHEMAS: dict[str, list[Any]] = {}
for schema in torch._C._jit_get_all_schemas():
    if not any(argument.is_out for argument in schema.arguments):
        SCHEMAS.setdefault(schema.name, []).append(schema)


@pytest.mark.parametrize("name", sorted({rule["name"] for rule in RULES} & SCHEMAS.keys()))
def test_every_overload_has_its_arguments_where_the_rule_says(name: str) -> None:
    """Which of a name's rules counts is told by the number of arguments."""
    rules = [(roles_of(rule), rule) for rule in RULES if rule["name"] == name]
    for schema in SCHEMAS[name]:
        arguments = [argument.name for argument in schema.arguments]
        found = [roles for roles, _ in rules if roles.get("arguments", len(arguments)) == len(arguments)]
        roles = min(found, key=lambda roles: "arguments" not in roles)
        for role, position in roles.items():
            # What an overload lacks stands at its end.
            if role in NAMES and position < len(arguments):
                assert arguments[position] in NAMES[role], (str(schema), role)


def test_rules_are_for_ops_that_there_are() -> None:
    """All but those of other packages."""
    unknown = {rule["name"] for rule in RULES if rule["name"] not in SCHEMAS and not rule["name"].endswith("*")}
    assert {name.partition("::")[0] for name in unknown} <= {"trtllm", "flash_attn"}
