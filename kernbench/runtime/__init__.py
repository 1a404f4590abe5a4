"""The host side: tensors, placement, messages, bench files."""
