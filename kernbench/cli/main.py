"""The entry point: finds the command, runs it, and turns what goes wrong into a diagnostic and an exit code.

Imports nothing heavy: each command is loaded when it is called.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from kernbench.cli.commands import COMMANDS
from kernbench.diagnostics import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, KernBenchError, did_you_mean


class LazyGroup(click.Group):
    """A group whose commands are imported from `COMMANDS` when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = next((entry for entry in COMMANDS if entry.name == cmd_name), None)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            ctx.fail(f"there is no command `{name}`; {did_you_mean(name, self.list_commands(ctx), 'the commands')}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in COMMANDS])


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from kernbench.version import VERSION

        click.echo(f"kernbench {VERSION}")
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def cli() -> None:
    """Compile kernels for a near-memory accelerator and simulate them with real numbers and real time.

    First steps: `kernbench list kernels`, `kernbench run gqa_decode_opt2.tl`, `kernbench compile softmax.tl`.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0, 1 where the answer is no, or an exit code of `diagnostics.py`."""
    try:
        result = cli.main(args=None if argv is None else list(argv), prog_name="kernbench", standalone_mode=False)
        if sys.stdout is not None:  # None where the caller closed it
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except KernBenchError as error:
        click.echo(error.render(), err=True)
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; nothing is left to say, and Python must not try to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _internal_error(error, sys.argv[1:] if argv is None else list(argv))
        # Python must not try to flush at exit, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"error[E_OUTPUT_FILE]: cannot write to stdout: {error.strerror}", err=True)
        return EXIT_USAGE
    except Exception as error:
        return _internal_error(error, sys.argv[1:] if argv is None else list(argv))


def _internal_error(error: Exception, argv: Sequence[Any]) -> int:
    """A fault of ours: keep what is needed to look into it, and say so without a traceback."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="kernbench-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"kernbench {' '.join(map(str, argv))}\n\n")
        file.write("".join(traceback.format_exception(error)))
    click.echo(f"error[E_INTERNAL]: {type(error).__name__}: {error}", err=True)
    click.echo(f" = note: this is a fault of KernBench; what is needed to look into it is in {file.name}", err=True)
    return EXIT_INTERNAL


def script() -> None:
    """What the installed `kernbench` command calls."""
    sys.exit(main())
