"""`python -m kernbench` is the command `kernbench`."""

from kernbench.cli.main import script

if __name__ == "__main__":
    script()
