"""What all tests share."""

pytest_plugins = ["kernbench.testing"]
