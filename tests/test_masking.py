"""What looks like a secret is hidden before anything is written, and what only sounds like one stays."""

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis.cli import app
from hotline_analysis.importer.options import Options
from hotline_analysis.text.masking import mask, mask_columns, mask_json_column, masked_json, masked_text
from tests.runs import is_as_another
from tests.trace_builder import TraceBuilder

SHARED = Path(os.environ["HOTLINE_TRACES"]) if "HOTLINE_TRACES" in os.environ else None

# Made up, but for Amazon's example. In parts, so that no scanner takes them for real.
AMAZON = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp" + "_" + "a1B2" * 9
HUGGING_FACE = "hf" + "_" + "Ab" * 17
OPENAI = "sk" + "-proj-" + "x-Y_z1" * 8
WEB_TOKEN = ".".join(("eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxIn0", "abc-_9" * 5))
PRIVATE_KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE+/=\n-----END RSA PRIVATE KEY-----"


def hidden(value: Any) -> Any:
    """The value without its secrets."""
    held = [json.loads(json.dumps(value))]
    mask(held)
    return held[0]


# --- by name ---------------------------------------------------------------------------------------------------------

_SECRET = """
    HF_TOKEN HUGGING_FACE_HUB_TOKEN GITHUB_TOKEN hfToken token accessToken api_tokens AWS_SESSION_TOKEN NPMTOKEN
    X-CSRF-Token HF_TOKEN_2 SECRET client_secret clientSecret MY_SECRET_KEY SECRET_KEY_BASE secrets password PASSWORD
    dbPassword PGPASSWORD passwd MYSQL_PWD passphrase DB_PASS SMTP_PASS redis_pw WIFI_PSK credential credentials
    GOOGLE_CREDENTIALS api_key API-KEY apiKey apikey OPENAI_API_KEY WANDB_API_KEY X-Api-Key APIKey ACCESS_KEY
    AWS_ACCESS_KEY_ID aws_secret_access_key PRIVATE_KEY privateKey ssh_key SIGNING_KEY ENCRYPTION_KEY AccountKey
    auth AUTH basic_auth REDIS_AUTH Authorization HTTP_AUTHORIZATION Proxy-Authorization oauth bearer cookie Set-Cookie
    cookies session SESSION session_id SESSIONID PHPSESSID user_session JWT GITHUB_PAT CONNECTION_STRING
"""
_HARMLESS = """
    tokenizer tokenizer_name TOKENIZERS_PARALLELISM tokens num_tokens max_tokens max_token n_token tokens_per_second
    token_type_ids token_count tokenization pad_token eos_token mask_token special_token image_token time_per_token
    author authors authority co_author session_length session_count XDG_SESSION_TYPE SESSION_MANAGER key keys GPG_KEY
    public_key sort_key cache_key key_padding_mask num_key_value_heads key_dim keyboard monkey storage_key pass
    backward_pass forward_pass passes bypass compass passthrough password_length PASSWORD_FILE SECRET_NAME secret_count
    SSH_AUTH_SOCK AUTH_TYPE auth_method HF_TOKEN_PATH num_secrets AWS_SHARED_CREDENTIALS_FILE hidden_size path pattern
    PATH attention_dropout seed name
"""
SECRET_NAMES, HARMLESS_NAMES = _SECRET.split(), _HARMLESS.split()


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert hidden({"env": {name: "correct horse", "LANG": "C"}}) == {"env": {name: "***", "LANG": "C"}}


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_names_that_only_sound_like_secrets(name: str) -> None:
    value = {name: "correct horse", "of": {name: ["a", 1, None]}}
    assert hidden(value) == value


@pytest.mark.parametrize("value", [7, 0.5, True, None, "", "true", "None", "disabled", "512", "[PAD]", "</s>", "2.1.0"])
def test_values_of_a_token_that_are_no_secret(value: object) -> None:
    """Of a model, a token is a number or a piece of text; and package names sound like secrets."""
    for name in ("token", "mask_out_token", "google-auth-token"):
        assert hidden({name: value}) == {name: value}


def test_below_the_name_of_a_secret_all_is_hidden() -> None:
    assert hidden({"password": 1234, "auth": {"user": "u", "pins": [1, {"a": "b", "on": True}]}}) == {
        "password": "***",
        "auth": {"user": "***", "pins": ["***", {"a": "***", "on": True}]},
    }
    assert hidden({"api_token": {"value": "abc", "days": 3}}) == {"api_token": {"value": "***", "days": 3}}
    assert hidden({"session": {"steps": 3, "name": "run"}}) == {"session": {"steps": 3, "name": "run"}}


def test_lists_that_name_what_follows() -> None:
    listed = [{"name": "HF_TOKEN", "value": "a b"}, {"name": "LANG", "value": "C"}, {"key": "X_SECRET", "value": "z"}]
    assert [each["value"] for each in hidden(listed)] == ["***", "C", "***"]
    assert hidden([["HF_TOKEN", "a b"], ["LANG", "C"]]) == [["HF_TOKEN", "***"], ["LANG", "C"]]
    command = ["train.py", "--hf-token", "abc", "--tokenizer", "gpt2", "--password=abc", "--max_tokens", "512"]
    assert hidden(command) == [*command[:2], "***", *command[3:5], "--password=***", *command[6:]]
    packages = ["google-auth==2.1", "SecretStorage==3.3", "keyring>=24", "google-auth=2.1=py_0"]
    assert hidden(packages) == packages
    assert hidden(packages[:2]) == packages[:2]
    assert hidden({"google-auth": "2.1.0", "SecretStorage": "3.3.3rc1"}) == {
        "google-auth": "2.1.0",
        "SecretStorage": "3.3.3rc1",
    }


# --- by form ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [AMAZON, GITHUB, HUGGING_FACE, OPENAI, WEB_TOKEN, PRIVATE_KEY])
def test_forms_of_secrets(secret: str) -> None:
    """Under any name, within any text, in a frame, and as a name itself."""
    assert hidden({"note": f"run with {secret}, then stop"}) == {"note": "run with ***, then stop"}
    assert hidden({"note": secret}) == {"note": "***"}
    assert list(hidden({secret: 1})) == ["***"]
    frame = pl.DataFrame({"id": [1, 2], "name": [f"load {secret}", "load"]})
    assert mask_columns(frame).to_dicts() == [{"id": 1, "name": "load ***"}, {"id": 2, "name": "load"}]
    text = json.dumps({"a": {"b": f"x {secret} y"}, "c": 1})
    assert mask_json_column(pl.Series([text, None, "{}"])).to_list() == ['{"a": {"b": "x *** y"}, "c": 1}', None, "{}"]
    assert json.loads(masked_json(text)) == {"a": {"b": "x *** y"}, "c": 1}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://me:p@ss@host:5432/db", "postgres://me:***@host:5432/db"),
        ("redis://:hunter2@host", "redis://:***@host"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("tcp://10.0.0.1:443", "tcp://10.0.0.1:443"),
        ("git+ssh://git@github.com:me/x.git", "git+ssh://git@github.com:me/x.git"),
        ("https://host/k?X-Amz-Signature=0ab&X-Amz-Date=1", "https://host/k?X-Amz-Signature=***&X-Amz-Date=1"),
        ("curl -H 'Authorization: Bearer abc.def' https://host", "curl -H 'Authorization: ***' https://host"),
        ("Basic information about tokenizers", "Basic information about tokenizers"),
        ("sk-learn-contrib and task-force-one-two-three-four", "sk-learn-contrib and task-force-one-two-three-four"),
        ("hf_model_for_sequence_classification", "hf_model_for_sequence_classification"),
        ("void at::native::Token::secret::auth<int>(eyJ)", "void at::native::Token::secret::auth<int>(eyJ)"),
    ],
)
def test_texts_like_forms(text: str, masked: str) -> None:
    assert masked_text(text) == masked


# --- in texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("A=1\nDB_PASSWORD=a, b; c=d\nB=2", "A=1\nDB_PASSWORD=***\nB=2"),
        ("A=1\0HF_TOKEN=abc\0B=2", "A=1\0HF_TOKEN=***\0B=2"),
        ("export  HF_TOKEN='a b'\nexport LANG=C", "export  HF_TOKEN=***\nexport LANG=C"),
        ("python train.py --hf_token abc --lr 0.1", "python train.py --hf_token *** --lr 0.1"),
        ("python train.py --password='a b' --lr 0.1", "python train.py --password=*** --lr 0.1"),
        ('x --api-key "a b" y', "x --api-key *** y"),
        ("Server=x;Password=a;AccountKey=b==;Timeout=5", "Server=x;Password=***;AccountKey=***;Timeout=5"),
        ("https://host/?access_token=abc&page=2", "https://host/?access_token=***&page=2"),
        ("{'HF_TOKEN': 'a b', 'LANG': 'C'}", "{'HF_TOKEN': ***, 'LANG': 'C'}"),
        ('got {\\"api_key\\": \\"a b\\", \\"n\\": 1}', 'got {\\"api_key\\": ***, \\"n\\": 1}'),
        ('{"api_key": "a b", "lr": 0.10, "n": [1.50]}', '{"api_key": "***", "lr": 0.10, "n": [1.50]}'),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        (
            "max_tokens=512 tokenizer=gpt2 pad_token=[PAD] token=5",
            "max_tokens=512 tokenizer=gpt2 pad_token=[PAD] token=5",
        ),
        ("key=value, author: me, session_length: 5", "key=value, author: me, session_length: 5"),
        ("the token is cut", "the token is cut"),
        ("env: HF_TOKEN=abc, args: --api-key abc", "env: HF_TOKEN=***, args: --api-key ***"),
    ],
)
def test_texts(text: str, masked: str) -> None:
    assert masked_text(text) == masked
    assert masked_text(masked) == masked
    assert hidden({"command": [text]}) == {"command": [masked]}


def test_fractions_keep_their_digits() -> None:
    text = '{"ts": 1751410836000000.123, "e": -1.50e-07, "big": 12345678901234567890, "password": 0.5, "t": "0.50"}'
    assert masked_json(text) == text.replace("0.5,", '"***",')


NAMES = st.sampled_from([*SECRET_NAMES, *HARMLESS_NAMES])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)


def shape(value: Any) -> Any:
    """Which containers there are, and what they hold by which name."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    return list(map(shape, value)) if isinstance(value, list) else None


@given(VALUES)
def test_any_value_keeps_its_shape_and_stays_as_it_is_then(value: Any) -> None:
    once = hidden(value)
    assert shape(once) == shape(value)
    assert hidden(once) == once


def test_depth_and_length_are_no_trouble() -> None:
    deep: Any = {"HF_TOKEN": "abc"}
    for _ in range(100_000):
        deep = [deep]
    assert mask(deep)
    begun = time.process_time()
    for text in ("\n", " \n", "a: ", "a='", "export ", '\\"a:', "://a:", "--a ", "eyJaaaaaaaaa.", "?sig", "Bearer "):
        masked_text(f"token {text * 20_000}")
    assert time.process_time() - begun < 5


# --- in runs, reports and exports -----------------------------------------------------------------------------------

SECRETS = {
    "metadata": "m-5ecret",
    "given": "g-5ecret",
    "device": "d-5ecret",
    "label": "l-5ecret",
    "arg": "a-5ecret",
    "field": "f-5ecret",
    "name": "n-5ecret",
    "form": HUGGING_FACE,
}


def with_secrets(steps: int = 1) -> TraceBuilder:
    trace = TraceBuilder(
        metadata={"system": {"env": {"HF_TOKEN": SECRETS["metadata"], "LANG": "C"}, "note": SECRETS["form"]}},
        hotline_metadata={"batch_size": 4, "api_key": SECRETS["given"], "tokenizer": "gpt2"},
        deviceProperties=[{"id": 0, "name": "H100", "password": SECRETS["device"]}],
    )
    trace.process_name(f"python --hf-token {SECRETS['label']}")
    for number in range(steps):
        at = 100 * number
        trace.step(number, at, at + 100)
        trace.annotation(f"get https://me:{SECRETS['name']}@host/x", at, at + 90, api_key=SECRETS["arg"], lr="0.1")
        trace.op("aten::mm", at + 5, at + 60, concrete_inputs=None).launches("gemm", at + 2, at + 99, at=at + 5)
    trace.event(ph="i", name="odd", ts=1, pid=1000, tid=1, cat="x", password=SECRETS["field"], dns="10.0.0.1")
    return trace


def texts_in(folder: Path) -> str:
    """Everything that a folder of ours says."""
    frames = [pl.read_parquet(file) for file in folder.rglob("*.parquet")]
    columns = [frame[name] for frame in frames for name in frame.columns if frame[name].dtype == pl.String]
    files = [file.read_text(encoding="utf-8") for file in folder.rglob("*") if file.suffix in (".json", ".html", ".md")]
    return "\n".join([*(text for column in columns for text in column.drop_nulls()), *files])


def said_of(trace: ha.Trace) -> list[str]:
    """Every way to look at a report."""
    report = ha.report(trace)
    page = report.to_html(ha.charts.timeline(trace))
    return [report.to_text(), report.to_markdown(), report.to_json(), page, report._repr_html_(), trace._repr_html_()]


def test_no_secret_is_stored_shown_or_exported(tmp_path: Path) -> None:
    file = with_secrets().write(tmp_path / "trace.json")
    run = ha.import_traces(file, tmp_path / "run.hotline")
    with ha.load(run) as trace:
        trace.export(tmp_path / "export/tables")
        ha.export_perfetto(trace, tmp_path / "export/trace.json")
        found = [texts_in(run), texts_in(tmp_path / "export"), *said_of(trace)]
        metadata = json.loads(trace.sql("select metadata from rank_info").item())
        args = trace.sql("select args, fields from event_args order by event_id").rows()
        names = trace.sql("select distinct name from event where category = 'user_annotation'")["name"].to_list()
        labels = (
            trace.sql("select process_name from track where process_name is not null")["process_name"]
            .unique()
            .to_list()
        )
    assert [name for name, secret in SECRETS.items() if any(secret in text for text in found)] == []
    assert metadata["metadata"] == {"system": {"env": {"HF_TOKEN": "***", "LANG": "C"}, "note": "***"}}
    assert metadata["hotline_metadata"] == {"batch_size": 4, "api_key": "***", "tokenizer": "gpt2"}
    assert "get https://me:***@host/x" in names
    assert labels == ["python --hf-token ***"]
    assert any(json.loads(each[0]) == {"api_key": "***", "lr": "0.1"} for each in args if each[0])
    assert [json.loads(each[1])["password"] for each in args if each[1]] == ["***"]
    assert "api key" in found[2]


SECRET_VARIABLES = ("HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD")
Variables = dict[str, str]
FORMS_OF_IT: dict[str, Callable[[Variables], object]] = {
    "as an object": lambda variables: variables,
    "deep inside": lambda variables: {"host": [{"process": {"environ": variables}}]},
    "as a list": lambda variables: [f"{name}={value}" for name, value in variables.items()],
    "as pairs": lambda variables: [[name, value] for name, value in variables.items()],
    "named": lambda variables: [{"name": name, "value": value} for name, value in variables.items()],
    "as a text": lambda variables: "\n".join(f"{name}={value}" for name, value in variables.items()),
    "as /proc has it": lambda variables: "\0".join(f"{name}={value}" for name, value in variables.items()),
    "as JSON in a text": json.dumps,
    "as python prints it": str,
    "as a shell exports it": lambda variables: "".join(
        f"export {name}='{value}'\n" for name, value in variables.items()
    ),
}


def secrets_of(form: str) -> Variables:
    """Secrets that stand in no other form."""
    return {name: f"{name.lower()}-5ecret-{list(FORMS_OF_IT).index(form)}-end" for name in SECRET_VARIABLES}


@pytest.mark.long
def test_an_environment_in_the_metadata_leaves_in_no_output(tmp_path: Path) -> None:
    forms = {form: write({**secrets_of(form), "HOME": f"/home/{form}"}) for form, write in FORMS_OF_IT.items()}
    nested = {form: {"env": written} for form, written in forms.items()}
    made = TraceBuilder(
        rank=0,
        metadata=nested,
        hotline_metadata=nested,
        deviceProperties=[{"id": number, "name": "GPU", "env": form} for number, form in enumerate(forms.values())],
    )
    made.step(0, 0, 1000)
    for number, written in enumerate(forms.values()):
        at = 100 * number
        made.op("aten::mm", at + 5, at + 60, env=written).launches("gemm", at + 20, at + 90, at=at + 6, until=at + 9)
        made.event(ph="X", cat="odd", name="odd", pid=1000, tid=1, ts=at + 1, dur=2, args={"env": written})
    file = made.write(tmp_path / "trace.json")
    run = ha.import_traces(file, tmp_path / "run.hotline")

    def said(*arguments: object) -> str:
        done = CliRunner().invoke(app, list(map(str, arguments)))
        assert done.exit_code == 0, done.output
        return done.output

    texts = [texts_in(run), said("timeline", run, "-o", tmp_path / "t.html"), said("export", run, "-o", tmp_path / "p")]
    texts.append(said("export", run, "--format", "perfetto", "-o", tmp_path / "perfetto.json"))
    file.unlink()
    texts += [texts_in(tmp_path), said("diff", run, run)]
    for table in ("rank_info", "device", "event_args", "op"):
        texts += [said("sql", f"from {table}", run, *given) for given in ((), ("--json",), ("--csv",))]
    with ha.load(run) as trace:
        texts += said_of(trace)
        kept = trace.sql("select metadata from rank_info").item()
    shown = [
        (form, name)
        for form in forms
        for name, secret in secrets_of(form).items()
        if any(secret in text for text in texts)
    ]
    assert shown == []
    assert [form for form in forms if f"/home/{form}" not in kept] == []  # and the rest is there


def test_secrets_are_kept_if_asked_for_but_never_reported(tmp_path: Path) -> None:
    file = with_secrets().write(tmp_path / "trace.json")
    done = CliRunner().invoke(app, ["import", str(file), "-o", str(tmp_path / "run.hotline"), "--keep-secrets"])
    assert done.exit_code == 0, done.output
    kept = {name for name, secret in SECRETS.items() if secret in texts_in(tmp_path / "run.hotline")}
    assert kept == set(SECRETS) - {"name"}
    with ha.load(file, keep_secrets=True) as trace:
        assert SECRETS["metadata"] in trace.sql("select metadata from rank_info").item()
        found = said_of(trace)
    assert [name for name, secret in SECRETS.items() if any(secret in text for text in found)] == []
    with pytest.raises(ha.HotlineError, match="is already imported"):
        ha.load(tmp_path / "run.hotline", keep_secrets=True)


def test_processes_are_told_whether_to_keep_secrets() -> None:
    for keep in (False, True):
        assert Options.from_json(Options(keep_secrets=keep).to_json()).keep_secrets is keep


@pytest.mark.traces
@pytest.mark.parametrize(
    "file",
    [file for file in sorted(SHARED.rglob("*.json.gz")) if not is_as_another(file)] if SHARED else [],
    ids=lambda file: file.name,
)
def test_of_real_metadata_only_secrets_change(file: Path) -> None:
    with gzip.open(file) as stream:
        content = json.load(stream)
    content.pop("traceEvents")
    masked = hidden(content)
    environment = content.get("metadata", {}).get("system", {}).get("env", {})
    assert environment.pop("HF_TOKEN", None) != "***"
    assert masked.get("metadata", {}).get("system", {}).get("env", {}).pop("HF_TOKEN", "***") == "***"
    assert masked == content
