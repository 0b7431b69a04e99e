"""Run the `hotline` command in this process."""

from typer.testing import CliRunner

from hotline_analysis.cli import app


class Result:
    def __init__(self, *arguments: object, columns: int | None = 110) -> None:
        """Without `columns`, as in a pipe."""
        env = {"COLUMNS": None if columns is None else str(columns)}
        done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="hotline", env=env)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        self.status = done.exit_code
        self.out = done.stdout
        self.err = done.stderr


def hotline(*arguments: object, columns: int | None = 110) -> str:
    result = Result(*arguments, columns=columns)
    assert result.status == 0, result.err
    assert result.err == ""
    return result.out
